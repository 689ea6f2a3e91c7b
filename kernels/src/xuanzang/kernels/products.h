// Products of quantised states with weights: linear layers, and the two of a feed-forward network with its activation.
#pragma once

#include "custom_op.h"
#include "packed_columns.h"

namespace xuanzang {

struct QuantizedProduct {
  static constexpr const char* kName = "QuantizedProduct";
  // x [..., in]; the matrix [in, out]: integers, scale of x, scales [out], zero point of x, biases [out].
  static constexpr OrtElementType kInputs[] = {kOrtUint8, kOrtInt8, kOrtFloat, kOrtFloat, kOrtUint8, kOrtFloat};
  static constexpr OrtElementType kOutputs[] = {kOrtFloat};  // [..., out].
  static constexpr std::array<InPlace, 0> kInPlace{};

  // The matrix, if it never changes.
  struct Kept {
    explicit Kept(const Constants& constants) : columns(kept_columns(constants, 1)) {}
    PackedColumns columns;
  };

  static void compute(const Context& context, const Kept& kept);
};

// A linear layer, the greater of its results and 0, their quantisation, and another linear layer.
struct FeedForward {
  static constexpr const char* kName = "FeedForward";
  // x [..., in]; as in QuantizedProduct the matrix [in, inner], then that [inner, out], whose x is the inner state.
  static constexpr OrtElementType kInputs[] = {kOrtUint8, kOrtInt8,  kOrtFloat, kOrtFloat, kOrtUint8, kOrtFloat,
                                               kOrtInt8,  kOrtFloat, kOrtFloat, kOrtUint8, kOrtFloat};
  static constexpr OrtElementType kOutputs[] = {kOrtFloat};  // [..., out].
  static constexpr std::array<InPlace, 0> kInPlace{};

  // The matrices, if they never change, and what quantises the inner state.
  struct Kept {
    explicit Kept(const Constants& constants) : inner(kept_columns(constants, 1)), outer(kept_columns(constants, 6)) {}
    PackedColumns inner, outer;
  };

  static void compute(const Context& context, const Kept& kept);
};

}  // namespace xuanzang
