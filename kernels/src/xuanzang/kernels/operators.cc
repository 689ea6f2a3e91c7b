#include "operators.h"

#include <atomic>
#include <initializer_list>
#include <stdexcept>

#include "add_norm_quantize.h"
#include "attention.h"
#include "chosen_logits.h"
#include "continuations.h"
#include "embedded_rows.h"
#include "products.h"
#include "projected_continuations.h"
#include "simd.h"

namespace xuanzang {
namespace {

constexpr const char* kDomain = "xuanzang";

std::atomic<const Library*> known_library{nullptr};

}  // namespace

// The operators for one instruction set; operators that multiply by matrices only where it has its own products.
class Operators {
 public:
  Operators(const OrtApi& api, const Simd& simd)
      : paged_attention_(api, simd),
        cross_attention_(api, simd),
        first_head_attention_(api, simd),
        best_continuations_(api, simd),
        add_norm_quantize_(api, simd),
        add_norm_clip_quantize_(api, simd),
        chosen_logits_(api, simd),
        source_attention_(api, simd),
        projected_continuations_(api, simd),
        shortlisted_continuations_(api, simd),
        quantized_product_(api, simd),
        feed_forward_(api, simd),
        embedded_rows_(api, simd),
        simd_(&simd),
        domain_(nullptr, api.ReleaseCustomOpDomain) {
    OrtCustomOpDomain* domain = nullptr;
    check(api, api.CreateCustomOpDomain(kDomain, &domain));
    domain_.reset(domain);
    for (const OrtCustomOp* op : std::initializer_list<const OrtCustomOp*>{
             &paged_attention_, &cross_attention_, &first_head_attention_, &best_continuations_, &add_norm_quantize_,
             &add_norm_clip_quantize_, &chosen_logits_, &source_attention_}) {
      check(api, api.CustomOpDomain_Add(domain, op));
    }
    if (!simd.project) return;
    for (const OrtCustomOp* op :
         std::initializer_list<const OrtCustomOp*>{&projected_continuations_, &shortlisted_continuations_,
                                                   &quantized_product_, &feed_forward_, &embedded_rows_}) {
      check(api, api.CustomOpDomain_Add(domain, op));
    }
  }

  Operators(const Operators&) = delete;

  const Simd* simd() const { return simd_; }
  OrtCustomOpDomain* domain() const { return domain_.get(); }

 private:
  const CustomOp<PagedAttention> paged_attention_;
  const CustomOp<CrossAttention> cross_attention_;
  const CustomOp<FirstHeadAttention> first_head_attention_;
  const CustomOp<BestContinuations> best_continuations_;
  const CustomOp<AddNormQuantize> add_norm_quantize_;
  const CustomOp<AddNormClipQuantize> add_norm_clip_quantize_;
  const CustomOp<ChosenLogits> chosen_logits_;
  const CustomOp<PackedSourceAttention> source_attention_;
  const CustomOp<ProjectedContinuations> projected_continuations_;
  const CustomOp<ShortlistedContinuations> shortlisted_continuations_;
  const CustomOp<QuantizedProduct> quantized_product_;
  const CustomOp<FeedForward> feed_forward_;
  const CustomOp<EmbeddedRows> embedded_rows_;
  const Simd* simd_;
  Owned<OrtCustomOpDomain> domain_;
};

Library::Library(const OrtApi& api) : api_(api) {
  for (const Simd* simd : supported_simd()) operators_.emplace_back(api, *simd);
}

const Library& Library::of(const OrtApiBase& base) {
  static const Library* const library = new Library(checked_api(base));
  known_library = library;
  return *library;
}

const Library& Library::known() {
  const Library* const library = known_library;
  if (!library) throw std::logic_error("no onnxruntime has asked for the operators yet");
  return *library;
}

void Library::add_to(OrtSessionOptions* options) const {
  const Simd* const simd = chosen_simd();
  if (!simd) throw std::invalid_argument("XUANZANG_KERNELS_ISA names no instruction set that can be used here");
  for (const Operators& operators : operators_) {
    if (operators.simd() == simd) check(api_, api_.AddCustomOpDomain(options, operators.domain()));
  }
}

}  // namespace xuanzang
