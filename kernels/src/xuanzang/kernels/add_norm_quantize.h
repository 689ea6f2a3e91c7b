// The step between two linear layers: a residual sum, its normalisation, and 8-bit integers of the result.
#pragma once

#include "custom_op.h"

namespace xuanzang {

struct AddNormQuantize {
  static constexpr const char* kName = "AddNormQuantize";
  // x [..., model]; the addend, whose dimensions of 1 and missing leading ones are repeated; weight and bias of the
  // normalisation [model]; scale and zero point of the integers.
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtFloat, kOrtFloat, kOrtFloat, kOrtUint8};
  // The integers, the sum and the normalised sum, each as x.
  static constexpr OrtElementType kOutputs[] = {kOrtUint8, kOrtFloat, kOrtFloat};
  static constexpr std::array<InPlace, 1> kInPlace{{{1, 1}}};
  static void compute(const Context& context);
};

// The same with the normalisation of Marian, whose result is cut before it is rounded.
struct AddNormClipQuantize {
  static constexpr const char* kName = "AddNormClipQuantize";
  // As of AddNormQuantize, with the least and the greatest value before the scale.
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtFloat, kOrtFloat,
                                               kOrtFloat, kOrtFloat, kOrtFloat, kOrtUint8};
  static constexpr OrtElementType kOutputs[] = {kOrtUint8, kOrtFloat, kOrtFloat};
  static constexpr std::array<InPlace, 1> kInPlace{{{1, 1}}};
  static void compute(const Context& context);
};

}  // namespace xuanzang
