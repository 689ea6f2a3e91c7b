// The output projection onto the pieces that each sentence may choose from.
#pragma once

#include "custom_op.h"

namespace xuanzang {

struct ChosenLogits {
  static constexpr const char* kName = "ChosenLogits";
  // Integers of the hypotheses [batch, beam, model]; column of each piece [vocab, model], its scale and its bias
  // [vocab]; ids of the pieces of each sentence [batch, choice].
  static constexpr OrtElementType kInputs[] = {kOrtUint8, kOrtInt8, kOrtFloat, kOrtFloat, kOrtInt64};
  // [batch, beam, choice].
  static constexpr OrtElementType kOutputs[] = {kOrtFloat};
  static constexpr std::array<InPlace, 0> kInPlace{};
  static void compute(const Context& context);
};

}  // namespace xuanzang
