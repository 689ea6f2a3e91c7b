#include <vector>

#include "attention.h"

namespace xuanzang {
namespace {

struct Inputs {
  explicit Inputs(const Context& context) : projected(context.input<float>(0)) {
    const auto lengths = context.input<int64_t>(1);
    const auto number = context.input<int64_t>(3);
    const auto scale = context.input<float>(4);
    const auto zero = context.input<uint8_t>(5);
    require(projected.rank == 3 && projected.size(0) == 1 && lengths.rank == 1, "an input has the wrong dimensions");
    require(number.elements() == 1 && number.data[0] > 0, "the number of heads is not a positive number");
    require(scale.elements() == 1 && scale.data[0] > 0 && zero.elements() == 1, "the scale is not a positive number");
    heads = static_cast<size_t>(number.data[0]);
    require(projected.size(2) % (3 * heads) == 0, "projected is not three times as wide as all heads");
    d_model = projected.size(2) / 3;
    for (size_t sentence = 0; sentence < lengths.elements(); ++sentence) {
      const int64_t length = lengths.data[sentence], left = projected.shape[1] - static_cast<int64_t>(ends.back());
      require(length >= 0 && length <= left, "the lengths are not those of the tokens");
      ends.push_back(ends.back() + static_cast<size_t>(length));
    }
    require(ends.back() == projected.size(1), "the lengths are not those of the tokens");
    const float integer = static_cast<float>(zero.data[0]);
    rounding = {1.0f / scale.data[0], integer, -integer};
  }

  size_t batch() const { return ends.size() - 1; }
  size_t first(size_t sentence) const { return ends[sentence]; }
  size_t length(size_t sentence) const { return ends[sentence + 1] - ends[sentence]; }

  // Multiplications of all sentences together.
  size_t operations() const {
    size_t pairs = 0;
    for (size_t sentence = 0; sentence < batch(); ++sentence) pairs += length(sentence) * length(sentence);
    return pairs * d_model;
  }

  Tensor<const float> projected;
  size_t heads, d_model;
  std::vector<size_t> ends{0};  // End of each sentence's tokens, from the beginning of the first.
  Rounding rounding;
};

// Buffers that a thread keeps from one sentence to the next.
struct Buffers {
  std::vector<size_t> offsets;
  std::vector<float> bias, weights, mixed;
};

void attend_sentence(const Simd& simd, const Inputs& in, size_t sentence, Buffers& buffers) {
  constexpr size_t kPerVector = kMaxWidth / kQueries;
  const size_t length = in.length(sentence), stride = 3 * in.d_model, d_head = in.d_model / in.heads;
  const size_t padded = (length + kPerVector - 1) / kPerVector * kPerVector;
  buffers.offsets.resize(length);
  for (size_t position = 0; position < length; ++position) buffers.offsets[position] = position * stride;
  // Every query sees every position.
  const size_t tiles = (length + kQueries - 1) / kQueries, size = padded * kQueries;
  buffers.bias.assign(tiles * size, kHidden);
  for (size_t tile = 0; tile < tiles; ++tile) std::fill_n(buffers.bias.data() + tile * size, length * kQueries, 0.0f);
  buffers.weights.resize(tiles * size);
  buffers.mixed.resize(length * in.d_model);
  const float* const states = in.projected.data + in.first(sentence) * stride;
  const KeyValues seen{states + in.d_model,
                       states + 2 * in.d_model,
                       d_head,
                       d_head,
                       buffers.offsets.data(),
                       length,
                       buffers.bias.data(),
                       padded};
  const Queries queries{states, stride, length, in.heads};
  for (size_t head = 0; head < in.heads; ++head) {
    simd.attend(queries, seen, head, buffers.weights.data(), buffers.mixed.data());
  }
}

}  // namespace

void PackedSourceAttention::compute(const Context& context) {
  const Inputs in(context);
  const auto quantized = context.output<uint8_t>(0, {1, in.projected.size(1), in.d_model});
  context.parallel(in.batch(), in.operations(), [&](size_t sentence) {
    if (!in.length(sentence)) return;
    thread_local Buffers buffers;
    attend_sentence(context.simd(), in, sentence, buffers);
    uint8_t* const target = quantized.data + in.first(sentence) * in.d_model;
    context.simd().quantize(buffers.mixed.data(), in.length(sentence) * in.d_model, in.rounding, target);
  });
}

}  // namespace xuanzang
