#include "chosen_logits.h"

#include "own_columns.h"

namespace xuanzang {

void ChosenLogits::compute(const Context& context) {
  const auto x = context.input<uint8_t>(0);
  const OwnColumns own(context, 1, x);
  const size_t batch = x.size(0), beam = x.size(1), width = x.size(2), count = own.count();
  const auto logits = context.output<float>(0, {batch, beam, count});
  // Columns of one piece of work.
  constexpr size_t kPart = 128;
  const size_t parts = (count + kPart - 1) / kPart;
  // Sixty-four products of integers take as long as one of floats.
  context.parallel(batch * parts, batch * beam * count * width / 64, [&](size_t index) {
    const size_t sentence = index / parts, first = index % parts * kPart;
    context.simd().multiply_columns(own.columns, x.data + sentence * beam * width, beam, own.of(sentence) + first,
                                    std::min(kPart, count - first), logits.data + sentence * beam * count + first,
                                    count);
  });
}

}  // namespace xuanzang
