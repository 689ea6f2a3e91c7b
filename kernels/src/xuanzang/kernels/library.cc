// What onnxruntime calls when a session is given this library.

#include "attention.h"
#include "continuations.h"
#include "add_norm_quantize.h"
#include "custom_op.h"
#include "chosen_logits.h"

#if defined(_WIN32)
#define XUANZANG_EXPORT __declspec(dllexport)
#else
#define XUANZANG_EXPORT __attribute__((visibility("default")))
#endif

namespace xuanzang {
namespace {

constexpr const char* kDomain = "xuanzang";

template <typename Operator>
OrtStatus* add(const OrtApi& api, OrtCustomOpDomain* domain) {
  static const Description<Operator> description(api);
  return api.CustomOpDomain_Add(domain, &description);
}

// The operators, made once and kept as long as the process: sessions share them, and any of them may be the last.
class Operators {
 public:
  explicit Operators(const OrtApi& api) {
    status_ = api.CreateCustomOpDomain(kDomain, &domain_);
    if (!status_) status_ = add<PagedAttention>(api, domain_);
    if (!status_) status_ = add<CrossAttention>(api, domain_);
    if (!status_) status_ = add<BestContinuations>(api, domain_);
    if (!status_) status_ = add<AddNormQuantize>(api, domain_);
    if (!status_) status_ = add<ChosenLogits>(api, domain_);
  }

  OrtStatus* add_to(const OrtApi& api, OrtSessionOptions* options) const {
    if (status_) return api.CreateStatus(kOrtFail, "xuanzang's operators could not be made");
    return api.AddCustomOpDomain(options, domain_);
  }

 private:
  OrtCustomOpDomain* domain_ = nullptr;
  OrtStatus* status_ = nullptr;
};

}  // namespace
}  // namespace xuanzang

extern "C" XUANZANG_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* const api = base->GetApi(kOrtApiVersion);
  static const xuanzang::Operators operators(*api);
  return operators.add_to(*api, options);
}
