// The logits of the hypotheses of a step, which exist block by block only.
#pragma once

#include <vector>

#include "logit_edits.h"
#include "own_columns.h"
#include "packed_columns.h"
#include "selection.h"

namespace xuanzang {

// Pieces that a sentence may choose: some that every sentence may, and its own. Their positions are in this order.
struct Shortlist {
  // Reads columns, scales, biases and ids as OwnColumns does, and then the ids of the pieces of all sentences [common].
  Shortlist(const Context& context, size_t first, const PackedColumns& common)
      : own(context, first, context.input<uint8_t>(0)), common_ids(context.input<int64_t>(first + 4)) {
    require(common_ids.elements() == common.vocab_size(), "there is not one id for each common column");
  }

  static constexpr size_t kInputs = 5;

  const OwnColumns own;
  const Tensor<const int64_t> common_ids;
};

class StepLogits {
 public:
  // State that a thread keeps from one step to the next.
  struct Buffers {
    std::vector<size_t> live;     // The rows that have continuations.
    std::vector<uint8_t> states;  // States of these rows, [live row, depth].
  };

  // Reads the states, input 0, and the edits, whose inputs begin with number `edits`. shortlist: null if every sentence
  // chooses among the columns only.
  StepLogits(const Context& context, const PackedColumns& columns, const Shortlist* shortlist, size_t edits,
             Buffers& buffers);

  size_t batch() const { return x_.size(0); }
  size_t beam() const { return x_.size(1); }
  size_t rows() const { return batch() * beam(); }
  size_t vocab_size() const { return columns_.vocab_size() + own_count(); }
  // Multiplications of integers for the logits of all live rows.
  size_t operations() const { return live().size() * columns_.depth() * vocab_size(); }
  const std::vector<size_t>& live() const { return buffers_.live; }

  // Leaves out rows whose scores are those of no hypothesis.
  void choose_rows(const float* scores);
  void choose_all_rows();

  size_t blocks() const { return columns_.blocks() + (own_count() + kBlock - 1) / kBlock; }
  size_t first(size_t block) const {
    const size_t common = columns_.blocks();
    return block < common ? block * kBlock : columns_.vocab_size() + (block - common) * kBlock;
  }
  size_t size(size_t block) const {
    return block < columns_.blocks() ? columns_.block_size(block) : std::min(kBlock, vocab_size() - first(block));
  }

  // Calls use(row, logits) for each live row with its logits of a block.
  template <typename Use>
  void for_each(size_t block, const Use& use) const {
    Tile tile;
    for (size_t at = 0; at < live().size();) {
      const size_t count = compute(block, at, live().size() - at, tile);
      for (size_t i = 0; i < count; ++i, ++at) use(live()[at], tile.of_rows[i]);
    }
  }

  // Returns a single logit of a row; all rows are live.
  float at(size_t row, size_t position) const;

  // Returns the id of a piece that a sentence may choose.
  int64_t id(size_t sentence, size_t position) const {
    if (!shortlist_) return static_cast<int64_t>(position);
    const size_t common = columns_.vocab_size();
    return position < common ? shortlist_->common_ids.data[position] : shortlist_->own.of(sentence)[position - common];
  }

 private:
  struct alignas(64) Tile {
    float of_rows[kMaxProjected][kBlock];
  };

  size_t own_count() const { return shortlist_ ? shortlist_->own.count() : 0; }
  void gather_states();

  // Computes logits of some live rows, `most` at the most, from number `from` of them on; returns how many.
  size_t compute(size_t block, size_t from, size_t most, Tile& tile) const;
  size_t project(size_t block, size_t from, size_t most, Tile& tile) const;
  size_t multiply_own(size_t block, size_t from, size_t most, Tile& tile) const;

  const Simd& simd_;
  const PackedColumns& columns_;
  const Shortlist* const shortlist_;
  Buffers& buffers_;
  const Tensor<const uint8_t> x_;
  const LogitEdits edits_;
};

}  // namespace xuanzang
