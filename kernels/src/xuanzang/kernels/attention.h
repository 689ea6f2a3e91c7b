// Attention: of the decoder, few queries of each sentence to the keys and values that lie in its pages; and of the
// encoder, all tokens of a sentence to each other.
#pragma once

#include "custom_op.h"

namespace xuanzang {

// Self-attention over the pages of a sentence (Kwon et al. 2023, arXiv:2309.06180).
//
// Writes the keys and values of the step into their slots, then attends to the slots that each hypothesis may see.
struct PagedAttention {
  static constexpr const char* kName = "PagedAttention";
  // projected [batch, beam, 3 * heads * head]: queries, keys and values side by side; past keys and values
  // [page, heads, slot, head]; slot_indices [batch, beam, heads, 3]; page_table [batch, entry]; page_owners, which only
  // the ONNX function needs; visible [batch, beam, entry * slot].
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtFloat, kOrtInt64,
                                               kOrtInt64, kOrtInt64, kOrtBool};
  // mixed [batch, beam, heads * head]; present keys and values, which may be the past ones.
  static constexpr OrtElementType kOutputs[] = {kOrtFloat, kOrtFloat, kOrtFloat};
  static constexpr std::array<InPlace, 2> kInPlace{{{1, 1}, {2, 2}}};
  static void compute(const Context& context);
};

// Attention to the source.
struct CrossAttention {
  static constexpr const char* kName = "CrossAttention";
  // queries [batch, beam, heads * head]; keys and values [page, heads, slot, head]; page_table [batch, entry];
  // page_owners, which only the ONNX function needs; source_lengths [batch]: used slots of each sentence.
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64, kOrtInt64};
  // mixed [batch, beam, heads * head]; the mean weight that the heads give to each slot, [batch, beam, entry * slot].
  static constexpr OrtElementType kOutputs[] = {kOrtFloat, kOrtFloat};
  static constexpr std::array<InPlace, 0> kInPlace{};
  static void compute(const Context& context);
};

// Attention of the first head to the source, which some models train to align words.
struct FirstHeadAttention {
  static constexpr const char* kName = "FirstHeadAttention";
  // As of CrossAttention, without values.
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtFloat, kOrtInt64, kOrtInt64, kOrtInt64};
  static constexpr OrtElementType kOutputs[] = {
      kOrtFloat};  // The head's weight of each slot, [batch, beam, entry * slot].
  static constexpr std::array<InPlace, 0> kInPlace{};
  static void compute(const Context& context);
};

// Self-attention of the encoder, whose result is quantised. The tokens of all sentences lie one after another.
struct PackedSourceAttention {
  static constexpr const char* kName = "PackedSourceAttention";
  // projected [1, token, 3 * heads * head]: queries, keys and values side by side; source_lengths [batch], whose sum is
  // the number of tokens; places, which only the ONNX function needs; number of heads [1]; scale and zero point of the
  // integers.
  static constexpr OrtElementType kInputs[] = {kOrtFloat, kOrtInt64, kOrtInt64, kOrtInt64, kOrtFloat, kOrtUint8};
  static constexpr OrtElementType kOutputs[] = {kOrtUint8};  // [1, token, heads * head].
  static constexpr std::array<InPlace, 0> kInPlace{};
  static void compute(const Context& context);
};

}  // namespace xuanzang
