// The end of a decoder step in one operator: from the integers of the hypotheses to the best continuations.
#pragma once

#include "custom_op.h"
#include "packed_columns.h"

namespace xuanzang {

struct ProjectedContinuations {
  static constexpr const char* kName = "ProjectedContinuations";
  // x [batch, beam, model]; the projection [model, vocab]: integers, scale of x, scales [vocab], zero point of x,
  // biases [vocab]; scores of the hypotheses [batch, beam]; number of continuations [1]; ids to choose only if no
  // others are left [banned]; ids, penalties and biases of edited logits [batch, beam, edit]; hypotheses that are
  // inspected [row], and ids that are asked for [row, required]. Hypotheses with scores below kDead, of which there are
  // none, have banned continuations only, unless some are inspected.
  static constexpr OrtElementType kInputs[] = {kOrtUint8, kOrtInt8,  kOrtFloat, kOrtFloat, kOrtUint8,
                                               kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64, kOrtInt64,
                                               kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64};
  // Summed log-probabilities, the ids that they add, and the hypotheses that they continue; best first,
  // [batch, continuation]. Of the inspected: log-probabilities of their best ids, these [row, continuation], and those
  // of the required ids [row, required].
  static constexpr OrtElementType kOutputs[] = {kOrtFloat, kOrtInt64, kOrtInt64, kOrtFloat, kOrtInt64, kOrtFloat};
  static constexpr std::array<InPlace, 0> kInPlace{};

  static constexpr size_t kFirstOfMatrix = 1;

  // The projection, if it never changes.
  struct Kept {
    explicit Kept(const Constants& constants) : columns(kept_columns(constants, kFirstOfMatrix)) {}
    PackedColumns columns;
  };

  static void compute(const Context& context, const Kept& kept);
};

}  // namespace xuanzang
