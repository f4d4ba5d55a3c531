// SPDX-License-Identifier: MIT
#include "mpt/nn/precision_policy.hpp"
#include "mpt/nn/gpt_sites.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {

std::vector<site> sites(int layers = 2, float dropout = 0) {
    gpt_config c;
    c.layers = layers, c.dropout = dropout;
    return gpt_sites(c);
}
precision of(const std::string& policy, const std::string& name) {
    const auto all = sites();
    const auto runs = precision_policy::parse(policy).resolve(all);
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].name == name) return runs[i];
    FAIL("no site ", name);
    return {};
}
std::string refusal(const std::string& policy) {
    try {
        precision_policy::parse(policy).resolve(sites());
    } catch (const error& e) {
        return e.what();
    }
    return "taken";
}

} // namespace

TEST_CASE("autocast's lists: products low, layer norm and loss fp32, the rest takes what comes") {
    for (const char* name : {"h.0.attn.c_attn", "h.1.mlp.c_proj", "lm_head", "h.0.attn"})
        CHECK(of("autocast", name) == precision::low);
    for (const char* name : {"h.0.ln_1", "h.1.ln_2", "ln_f", "loss"})
        CHECK(of("autocast", name) == precision::fp32);
    for (const char* name : {"embedding", "h.0.add_1", "h.1.mlp.act"})
        CHECK(of("autocast", name) == precision::widest);
    for (const site& s : sites()) {
        CHECK(of("all-low", s.name) == precision::low);
        CHECK(of("all-fp32", s.name) == precision::fp32);
    }
}

TEST_CASE("rules: by kind, by site, by pattern; the last one holds") {
    CHECK(of("autocast,lm_head=fp32", "lm_head") == precision::fp32);
    CHECK(of("autocast,lm_head=fp32", "h.0.attn.c_attn") == precision::low);
    CHECK(of("autocast,h.*.mlp.c_fc=fp32", "h.1.mlp.c_fc") == precision::fp32);
    CHECK(of("autocast,h.*.mlp.c_fc=fp32", "h.1.mlp.c_proj") == precision::low);
    CHECK(of("all-low,h.*.*=fp32,gelu=low", "h.0.attn") == precision::fp32);
    CHECK(of("all-low,h.*.*=fp32,ln_*=fp32", "h.0.attn.c_attn") == precision::low); // a dot more
    CHECK(of("all-low,h.1.*.*=fp32", "h.1.attn.c_proj") == precision::fp32);
    CHECK(of("all-low,h.1.*.*=fp32", "h.1.ln_1") == precision::low); // two stars, two parts
    CHECK(of("all-low,lm_head=fp32,linear=low", "lm_head") == precision::low);
    CHECK(of("all-fp32,linear=low,lm_head=widest", "lm_head") == precision::widest);
    // a rule about a kind that the model does not have is no mistake: dropout may be 0
    CHECK(of("all-low,dropout=fp32", "lm_head") == precision::low);
    const std::string text = "autocast,lm_head=fp32,h.*.ln_1=low";
    CHECK(precision_policy::parse(text).text() == text);
    CHECK(precision_policy::all_low().set("loss", precision::fp32).text() == "all-low,loss=fp32");
}

TEST_CASE("a policy that names no operation is refused, and so is one that names too few") {
    const std::string nothing = "precision policy: names no operation; begin with autocast, "
                                "all-low or all-fp32, or give NAME=low, NAME=fp32 or NAME=widest "
                                "for each";
    CHECK(refusal("") == nothing);
    CHECK(refusal("lm_head=fp32") ==
          "precision policy: \"lm_head=fp32\" does not name embedding (embedding); begin with "
          "autocast, all-low or all-fp32");
    // named one by one, without a first word, is enough
    CHECK(refusal("embedding=fp32,layernorm=fp32,linear=low,attention=low,gelu=widest,"
                  "residual=widest,cross_entropy=fp32") == "taken");
}

TEST_CASE("what is misspelt is refused by name, with what there is") {
    CHECK(refusal("autocast,lm_haed=fp32") ==
          "precision policy: lm_haed=fp32 names no operation of this model; there are embedding, "
          "layernorm, linear, attention, gelu, dropout, residual, cross_entropy, h.*.ln_1, "
          "h.*.attn.c_attn, h.*.attn, h.*.attn.c_proj, h.*.add_1, h.*.ln_2, h.*.mlp.c_fc, "
          "h.*.mlp.act, h.*.mlp.c_proj, h.*.add_2, ln_f, lm_head, loss");
    CHECK(refusal("autocast,h.2.ln_1=low").find("h.2.ln_1=low names no operation") !=
          std::string::npos);
    CHECK(
        refusal("autocast,lm_head=fp64") ==
        "precision policy: lm_head=fp64: \"fp64\" is no precision; wanted is low, fp32 or widest");
    CHECK(refusal("fast") == "precision policy: \"fast\"; wanted is autocast, all-low, all-fp32 or "
                             "NAME=low, NAME=fp32, NAME=widest");
    CHECK(refusal("lm_head=fp32,autocast").find("behind the first word") != std::string::npos);
    CHECK(refusal("autocast,,lm_head=fp32").find("behind the first word") != std::string::npos);
}

TEST_CASE("the table: a line a kind with its reason, then the rules about sites") {
    const std::string table = precision_policy::parse("autocast,gelu=low,lm_head=fp32").table();
    CHECK(table.find("linear          low     products") != std::string::npos);
    CHECK(table.find("gelu            low     \n") != std::string::npos); // no reason of autocast's
    CHECK(table.find("lm_head         fp32") != std::string::npos);
    CHECK(std::count(table.begin(), table.end(), '\n') == operation_kinds + 1);
}

TEST_CASE("sites of a GPT: 4 + 10 a layer, one more with dropout; their tensors are the layout's") {
    CHECK(sites(1).size() == 14);
    CHECK(sites(3).size() == 34);
    CHECK(sites(3, 0.1f).size() == 35);
    gpt_config c;
    gpt_tensors t;
    const layout map = gpt_layout(c, t);
    std::vector<std::string> read;
    for (const site& s : gpt_sites(c)) read.insert(read.end(), s.tensors.begin(), s.tensors.end());
    for (const tensor_info& info : map.tensors) // wte has two readers, the others one
        CHECK(std::count(read.begin(), read.end(), info.name) ==
              (info.name == "wte.weight" ? 2 : 1));
}

TEST_CASE("the table shows the rule that holds, and no reason that was another's") {
    const std::string table = precision_policy::parse("autocast,linear=low,linear=fp32").table();
    CHECK(table.find("linear          fp32    \n") != std::string::npos);
    CHECK(table.find("linear          low") == std::string::npos);
}
