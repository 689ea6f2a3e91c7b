// The end of a decoder step in one operator: from the integers of the hypotheses to the best continuations.
#pragma once

#include "custom_op.h"
#include "packed_columns.h"

namespace xuanzang {

// The projection of all sentences, if it never changes.
struct KeptProjection {
  explicit KeptProjection(const Constants& constants);
  PackedColumns columns;
};

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

  using Kept = KeptProjection;
  static void compute(const Context& context, const Kept& kept);
};

// The same for sentences that choose among few pieces: some that all sentences share, and then their own.
struct ShortlistedContinuations {
  static constexpr const char* kName = "ShortlistedContinuations";
  // x; the projection onto the shared pieces [model, common]; columns of all pieces [vocab, model], their scales and
  // biases [vocab], and the ids of those of each sentence [batch, choice]; ids of the shared pieces [common]; the
  // others as above, in which the places of pieces among the shared ones and a sentence's own stand for ids.
  static constexpr OrtElementType kInputs[] = {
      kOrtUint8, kOrtInt8,  kOrtFloat, kOrtFloat, kOrtUint8, kOrtFloat, kOrtInt8,  kOrtFloat, kOrtFloat, kOrtInt64,
      kOrtInt64, kOrtFloat, kOrtInt64, kOrtInt64, kOrtInt64, kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64};
  // As above, with ids of the vocabulary.
  static constexpr OrtElementType kOutputs[] = {kOrtFloat, kOrtInt64, kOrtInt64, kOrtFloat, kOrtInt64, kOrtFloat};
  static constexpr std::array<InPlace, 0> kInPlace{};

  using Kept = KeptProjection;
  static void compute(const Context& context, const Kept& kept);
};

}  // namespace xuanzang
