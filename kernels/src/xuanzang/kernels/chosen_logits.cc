#include "chosen_logits.h"

namespace xuanzang {

void ChosenLogits::compute(const Context& context) {
  const auto x = context.input<uint8_t>(0);
  const auto integers = context.input<int8_t>(1);
  const auto scale = context.input<float>(2), bias = context.input<float>(3);
  const auto ids = context.input<int64_t>(4);
  require(x.rank == 3 && integers.rank == 2 && ids.rank == 2, "an input has the wrong dimensions");
  const size_t batch = x.size(0), beam = x.size(1), width = x.size(2), count = ids.size(1);
  require(ids.size(0) == batch, "batches differ");
  require(integers.size(1) == width, "x and columns differ in width");
  const size_t vocab_size = integers.size(0);
  require(scale.elements() == vocab_size && bias.elements() == vocab_size, "a column has no scale or no bias");
  const auto exists = [&](int64_t id) { return id >= 0 && static_cast<size_t>(id) < vocab_size; };
  require(std::all_of(ids.data, ids.data + ids.elements(), exists), "a piece does not exist");

  const auto logits = context.output<float>(0, {batch, beam, count});
  const Columns columns{integers.data, scale.data, bias.data, width};
  // Columns of one piece of work.
  constexpr size_t kPart = 128;
  const size_t parts = (count + kPart - 1) / kPart;
  // Sixty-four products of integers take as long as one of floats.
  context.parallel(batch * parts, batch * beam * count * width / 64, [&](size_t index) {
    const size_t sentence = index / parts, first = index % parts * kPart;
    context.simd().multiply_columns(columns, x.data + sentence * beam * width, beam,
                                    ids.data + sentence * count + first, std::min(kPart, count - first),
                                    logits.data + sentence * beam * count + first, count);
  });
}

}  // namespace xuanzang
