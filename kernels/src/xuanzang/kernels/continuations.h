// The end of a decoder step: from logits to the best continuations of each sentence.
#pragma once

#include "custom_op.h"

namespace xuanzang {

struct BestContinuations {
  static constexpr const char* kName = "BestContinuations";
  // logits [batch, beam, vocab]; scores of the hypotheses [batch, beam]; number of continuations [1]; ids to choose
  // only if no others are left [banned].
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64};
  // Summed log-probabilities, the ids that they add, and the hypotheses that they continue; best first,
  // [batch, continuation].
  static constexpr OrtElementType kOutputs[] = {kOrtFloat, kOrtInt64, kOrtInt64};
  static constexpr std::array<InPlace, 0> kInPlace{};
  static void compute(const Context& context);
};

}  // namespace xuanzang
