// SPDX-License-Identifier: MIT
/// @file fiber.hpp
/// Many stacks for one system thread.                                      tier 2, needs:
/// base/error.hpp simt/cuda_words.hpp
///
/// Idea     A fiber is a stack and the place where it went to sleep. switch_context() keeps the
///          registers that a call must preserve on the old stack, exchanges the stack pointer and
///          takes them back from the new stack: about 20 instructions, no system call. On x86-64
///          and arm64 that is assembly; elsewhere, or with MPT_SIMT_UCONTEXT, swapcontext() does
///          it, which asks the system for the signal mask each time (a system call).
///          A page that cannot be touched ends each stack, so that an overflow stops.
///          AddressSanitizer is told of each switch, or it would take stacks for each other.
/// Costs    memory: what a thread has touched of its stack, and one page
/// Breaks   a fiber that moves to another system thread: thread_local addresses are kept across
/// See      block.hpp (who switches when), tests/simt/fiber_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // check
#include "mpt/simt/cuda_words.hpp" // MPT_SIMT_QUIET

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#if !defined(MPT_SIMT_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define MPT_SIMT_UCONTEXT
#endif
#if defined(MPT_SIMT_UCONTEXT)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MPT_SIMT_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MPT_SIMT_ASAN
#endif
#endif

#if defined(MPT_SIMT_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* save, const void** bottom, std::size_t* size);
void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
}
#endif

namespace mpt::simt {

#if defined(__clang__)
#define MPT_SIMT_OPAQUE __attribute__((noinline))
#else
#define MPT_SIMT_OPAQUE __attribute__((noinline, noipa))
#endif

/// What sleeps: a fiber, or the system thread's own stack.
struct context {
    void* sp = nullptr; // where its registers lie
    const void* bottom = nullptr; // of its stack; for AddressSanitizer, which needs
    std::size_t size = 0;         // both, and keeps
    void* fake = nullptr;         // a stack of its own beside it
#if defined(MPT_SIMT_UCONTEXT)
    ucontext_t registers;
#endif
};

#if !defined(MPT_SIMT_UCONTEXT)
/// Save here, go on there. Registers that a call may change need no saving: this is a call.
MPT_SIMT_OPAQUE MPT_SIMT_QUIET inline void swap_stacks(void** save, void* to) {
#if defined(__x86_64__)
    asm volatile("leaq -128(%%rsp), %%rsp\n\t" // 128 bytes below rsp may be in use (red zone)
                 "pushq %%rbp\n\t"
                 "pushq %%rbx\n\t" // the compiler may not give these two away as clobbered
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "movq %%rsp, (%%rdi)\n\t"
                 "movq %%rsi, %%rsp\n\t"
                 "popq %%rax\n\t"
                 "jmp *%%rax\n"
                 "1:\n\t"
                 "popq %%rbx\n\t"
                 "popq %%rbp\n\t"
                 "leaq 128(%%rsp), %%rsp"
                 : "+D"(save), "+S"(to)
                 :
                 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                   "memory", "cc");
#else
    register void** from asm("x0") = save;
    register void* target asm("x1") = to;
    asm volatile("stp x29, x30, [sp, #-32]!\n\t"
                 "str x19, [sp, #16]\n\t"
                 "adr x16, 1f\n\t"
                 "str x16, [sp, #24]\n\t"
                 "mov x16, sp\n\t"
                 "str x16, [x0]\n\t"
                 "mov sp, x1\n\t"
                 "ldr x16, [sp, #24]\n\t"
                 "br x16\n"
                 "1:\n\t"
                 "hint #36\n\t" // bti j: one may jump here
                 "ldr x19, [sp, #16]\n\t"
                 "ldp x29, x30, [sp], #32"
                 : "+r"(from), "+r"(target)
                 :
                 : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                   "x14", "x15", "x16", "x17", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
                   "x27", "x28", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "memory",
                   "cc");
#endif
}
#endif

/// Who went to sleep last on this system thread.
inline thread_local context* last_asleep = nullptr;

/// The first thing to do on a stack after it was switched to.
MPT_SIMT_QUIET inline void arrived([[maybe_unused]] context& now) {
#if defined(MPT_SIMT_ASAN)
    __sanitizer_finish_switch_fiber(now.fake, &last_asleep->bottom, &last_asleep->size);
#endif
}

/// Sleep in `from` until somebody switches to it; wake `to`.
MPT_SIMT_QUIET inline void switch_context(context& from, context& to) {
#if defined(MPT_SIMT_ASAN)
    last_asleep = &from;
    __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.size);
#endif
#if defined(MPT_SIMT_UCONTEXT)
    swapcontext(&from.registers, &to.registers);
#else
    swap_stacks(&from.sp, to.sp);
#endif
    arrived(from);
}

/// A stack that begins with main(), which never returns and calls arrived() first.
class fiber {
public:
    /// `colour` moves the beginning of the stack: pages alike would compete for the same lines of
    /// the caches. Throws where the system has no more memory.
    fiber(void (*main)(), std::size_t bytes, unsigned colour) {
        page_ = std::size_t(sysconf(_SC_PAGESIZE));
        size_ = (bytes + 2 * page_ - 1) / page_ * page_ + page_;
        void* p = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(p != MAP_FAILED, "simt: the system refuses a stack of ", size_,
              " bytes; launch smaller blocks");
        base_ = static_cast<std::byte*>(p);
        if (mprotect(base_, page_, PROT_NONE) != 0) {
            munmap(base_, size_);
            throw error("simt: the system has no more pages to guard a stack; launch smaller "
                        "blocks or raise vm.max_map_count");
        }
        self.bottom = base_ + page_;
        self.size = size_ - page_ - colour % 16 * 256;
        auto* top = reinterpret_cast<void**>(base_ + page_ + self.size);
#if defined(MPT_SIMT_UCONTEXT)
        getcontext(&self.registers);
        self.registers.uc_stack.ss_sp = base_ + page_;
        self.registers.uc_stack.ss_size = self.size;
        self.registers.uc_link = nullptr;
        makecontext(&self.registers, main, 0);
        (void)top;
#elif defined(__x86_64__)
        top[-1] = nullptr; // main's return address, at 16 n + 8 as after a call
        top[-2] = reinterpret_cast<void*>(main);
        self.sp = top - 2;
#else
        top[-1] = reinterpret_cast<void*>(main); // a frame of 32 bytes; its end is the entry
        top[-2] = top[-3] = top[-4] = nullptr;
        self.sp = top - 4;
#endif
    }
    ~fiber() {
#if defined(MPT_SIMT_ASAN)
        __asan_unpoison_memory_region(base_, size_); // of a thread that did not run to its end
#endif
        munmap(base_, size_);
    }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;

    context self;

private:
    std::byte* base_ = nullptr;
    std::size_t size_ = 0, page_ = 0;
};

#undef MPT_SIMT_OPAQUE

} // namespace mpt::simt
