// SPDX-License-Identifier: MIT
// Wrong in three ways: the template is right, the solution is not, and a mutant is not noticed.
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

PART("one", 1) { equals("twice 1", twice(1), 2, "it is"); }
PART("four", 2) { equals("twice 4", twice(4), 8, "it is"); }
