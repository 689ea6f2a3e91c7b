// The functions that the library exports: onnxruntime's entry point, facts for the Python package, and the bookkeeping
// of a step.

#include <deque>
#include <new>
#include <stdexcept>
#include <string>

#include "add_norm_quantize.h"
#include "attention.h"
#include "chosen_logits.h"
#include "continuations.h"
#include "custom_op.h"
#include "onnxruntime_check.h"
#include "phrase_choice.h"
#include "products.h"
#include "projected_continuations.h"
#include "simd.h"
#include "step.h"

#define XUANZANG_EXPORT extern "C" __attribute__((visibility("default")))

namespace xuanzang {
namespace {

constexpr const char* kDomain = "xuanzang";

// The operators for one instruction set, with or without those that multiply by matrices.
class Operators {
 public:
  Operators(const OrtApi& api, const Simd& simd, bool projects)
      : paged_attention_(api, simd),
        cross_attention_(api, simd),
        best_continuations_(api, simd),
        add_norm_quantize_(api, simd),
        chosen_logits_(api, simd),
        source_attention_(api, simd),
        projected_continuations_(api, simd),
        quantized_product_(api, simd),
        feed_forward_(api, simd),
        simd_(&simd),
        projects_(projects),
        domain_(nullptr, api.ReleaseCustomOpDomain) {
    OrtCustomOpDomain* domain = nullptr;
    check(api, api.CreateCustomOpDomain(kDomain, &domain));
    domain_.reset(domain);
    for (const OrtCustomOp* op :
         std::initializer_list<const OrtCustomOp*>{&paged_attention_, &cross_attention_, &best_continuations_,
                                                   &add_norm_quantize_, &chosen_logits_, &source_attention_}) {
      check(api, api.CustomOpDomain_Add(domain, op));
    }
    if (!projects) return;
    for (const OrtCustomOp* op :
         std::initializer_list<const OrtCustomOp*>{&projected_continuations_, &quantized_product_, &feed_forward_}) {
      check(api, api.CustomOpDomain_Add(domain, op));
    }
  }

  Operators(const Operators&) = delete;

  const Simd* simd() const { return simd_; }
  bool projects() const { return projects_; }
  OrtCustomOpDomain* domain() const { return domain_.get(); }

 private:
  const CustomOp<PagedAttention> paged_attention_;
  const CustomOp<CrossAttention> cross_attention_;
  const CustomOp<BestContinuations> best_continuations_;
  const CustomOp<AddNormQuantize> add_norm_quantize_;
  const CustomOp<ChosenLogits> chosen_logits_;
  const CustomOp<PackedSourceAttention> source_attention_;
  const CustomOp<ProjectedContinuations> projected_continuations_;
  const CustomOp<QuantizedProduct> quantized_product_;
  const CustomOp<FeedForward> feed_forward_;
  const Simd* simd_;
  const bool projects_;
  Owned<OrtCustomOpDomain> domain_;
};

// The operators for each instruction set. They live as long as the process: sessions share them, and any session may be
// the last one.
class Library {
 public:
  static const Library& of(const OrtApiBase& base) {
    static const Library* const library = new Library(checked_api(base));
    return *library;
  }

  void add_to(OrtSessionOptions* options, const Simd& simd) const {
    for (const Operators& operators : operators_) {
      if (operators.simd() != &simd || operators.projects() != projects(simd)) continue;
      check(api_, api_.AddCustomOpDomain(options, operators.domain()));
    }
  }

 private:
  explicit Library(const OrtApi& api) : api_(api) {
    for (const Simd* simd : supported_simd()) {
      operators_.emplace_back(api, *simd, false);
      if (simd->project) operators_.emplace_back(api, *simd, true);
    }
  }

  const OrtApi& api_;
  std::deque<Operators> operators_;
};

// Why the last registration in this thread failed; empty if it did not.
std::string& last_fault() {
  thread_local std::string fault;
  return fault;
}

}  // namespace
}  // namespace xuanzang

// Adds the operators to the options of a session, for the chosen instruction set. onnxruntime calls this.
XUANZANG_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace xuanzang;
  if (!base) return nullptr;
  try {
    last_fault().clear();
    const Simd* const simd = chosen_simd();
    if (!simd) throw std::invalid_argument("XUANZANG_KERNELS_ISA names no instruction set that can be used here");
    Library::of(*base).add_to(options, *simd);
    return nullptr;
  } catch (const std::exception& error) {
    last_fault() = error.what();
    return status_of(*base, kOrtFail, error.what());
  }
}

// Returns why the last `RegisterCustomOps` in this thread failed; empty if it did not. An onnxruntime that is too
// different to be given a status does not report it.
XUANZANG_EXPORT const char* XuanzangLastFault() { return xuanzang::last_fault().c_str(); }

// Returns the name of the instruction set that sessions would use from now on; null if XUANZANG_KERNELS_ISA is wrong.
XUANZANG_EXPORT const char* XuanzangChosenIsa() {
  const xuanzang::Simd* const simd = xuanzang::chosen_simd();
  return simd ? simd->isa : nullptr;
}

// Returns the name of a supported instruction set, best first; null beyond the last.
XUANZANG_EXPORT const char* XuanzangSupportedIsa(size_t index) {
  const auto& supported = xuanzang::supported_simd();
  return index < supported.size() ? supported[index]->isa : nullptr;
}

XUANZANG_EXPORT int64_t XuanzangAdvanceSlots(const xuanzang::SlotStep* step) { return xuanzang::advance_slots(*step); }

XUANZANG_EXPORT int64_t XuanzangContinueBest(const xuanzang::BeamStep* step) { return xuanzang::continue_best(*step); }

// Chooses the hypotheses of sentences that require phrases; returns how many end, -1 if there is no memory for it.
XUANZANG_EXPORT int64_t XuanzangContinuePhrases(const xuanzang::PhraseStep* step) {
  try {
    return xuanzang::choose_phrases(*step);
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

// Writes the ids whose log-probabilities these sentences want; returns 0.
XUANZANG_EXPORT int64_t XuanzangAskForPhrases(const xuanzang::PhraseStep* step) {
  xuanzang::ask_for_phrases(*step);
  return 0;
}
