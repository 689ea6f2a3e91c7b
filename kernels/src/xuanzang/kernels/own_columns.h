// Columns of a matrix that a sentence chooses for itself.
#pragma once

#include "custom_op.h"

namespace xuanzang {

struct OwnColumns {
  // Reads columns [vocab, model], their scales and biases [vocab], and the ids of those of each sentence
  // [batch, choice]: the inputs from number `first` on. x: the states to be multiplied, [batch, beam, model].
  OwnColumns(const Context& context, size_t first, const Tensor<const uint8_t>& x)
      : ids(context.input<int64_t>(first + 3)) {
    const auto integers = context.input<int8_t>(first);
    const auto scale = context.input<float>(first + 1), bias = context.input<float>(first + 2);
    require(x.rank == 3 && integers.rank == 2 && ids.rank == 2, "an input has the wrong dimensions");
    require(ids.size(0) == x.size(0), "batches differ");
    require(integers.size(1) == x.size(2), "x and columns differ in width");
    const size_t vocab_size = integers.size(0);
    require(scale.elements() == vocab_size && bias.elements() == vocab_size, "a column has no scale or no bias");
    const auto exists = [&](int64_t id) { return id >= 0 && static_cast<size_t>(id) < vocab_size; };
    require(std::all_of(ids.data, ids.data + ids.elements(), exists), "a piece does not exist");
    columns = {integers.data, scale.data, bias.data, x.size(2)};
  }

  size_t count() const { return ids.size(1); }
  const int64_t* of(size_t sentence) const { return ids.data + sentence * count(); }

  Columns columns;
  Tensor<const int64_t> ids;
};

}  // namespace xuanzang
