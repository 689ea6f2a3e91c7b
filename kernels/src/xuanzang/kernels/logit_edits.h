// Changes of single logits.
#pragma once

#include <vector>

#include "custom_op.h"

namespace xuanzang {

class LogitEdits {
 public:
  // Reads ids, penalties and biases [batch, beam, edit], the inputs from number `first` on.
  LogitEdits(const Context& context, size_t first, size_t rows, size_t vocab_size);

  // Changes the logits of a row, `count` from id `first` on.
  void apply(size_t row, size_t first, size_t count, float* logits) const;

 private:
  struct Edit {
    size_t id;
    float penalty, bias;
    bool operator<(const Edit& other) const { return id < other.id; }
  };

  size_t per_row_;
  std::vector<Edit> edits_;  // By row, then by id.
};

}  // namespace xuanzang
