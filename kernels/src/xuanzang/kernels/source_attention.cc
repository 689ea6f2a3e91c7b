#include <vector>

#include "attention.h"

namespace xuanzang {
namespace {

struct Inputs {
  explicit Inputs(const Context& context) : projected(context.input<float>(0)), lengths(context.input<int64_t>(1)) {
    const auto number = context.input<int64_t>(2);
    const auto scale = context.input<float>(3);
    const auto zero = context.input<uint8_t>(4);
    require(projected.rank == 3 && lengths.rank == 1, "an input has the wrong dimensions");
    require(number.elements() == 1 && number.data[0] > 0, "the number of heads is not a positive number");
    require(scale.elements() == 1 && scale.data[0] > 0 && zero.elements() == 1, "the scale is not a positive number");
    batch = projected.size(0), source = projected.size(1), heads = static_cast<size_t>(number.data[0]);
    require(projected.size(2) % (3 * heads) == 0, "projected is not three times as wide as all heads");
    require(lengths.size(0) == batch, "batches differ");
    d_model = projected.size(2) / 3;
    for (size_t sentence = 0; sentence < batch; ++sentence) {
      require(length(sentence) <= source, "a source is longer than its positions");
    }
    const float integer = static_cast<float>(zero.data[0]);
    rounding = {1.0f / scale.data[0], integer, -integer};
    padding = zero.data[0];
  }

  size_t length(size_t sentence) const { return static_cast<size_t>(lengths.data[sentence]); }

  Tensor<const float> projected;
  Tensor<const int64_t> lengths;
  size_t batch, source, heads, d_model;
  Rounding rounding;
  uint8_t padding;
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
  const float* const states = in.projected.data + sentence * in.source * stride;
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

void SourceAttention::compute(const Context& context) {
  const Inputs in(context);
  const auto quantized = context.output<uint8_t>(0, {in.batch, in.source, in.d_model});
  context.parallel(in.batch, in.batch * in.source * in.source * in.d_model, [&](size_t sentence) {
    thread_local Buffers buffers;
    if (in.length(sentence)) attend_sentence(context.simd(), in, sentence, buffers);
    const size_t size = in.length(sentence) * in.d_model, all = in.source * in.d_model;
    uint8_t* const target = quantized.data + sentence * all;
    context.simd().quantize(buffers.mixed.data(), size, in.rounding, target);
    std::fill_n(target + size, all - size, in.padding);
  });
}

}  // namespace xuanzang
