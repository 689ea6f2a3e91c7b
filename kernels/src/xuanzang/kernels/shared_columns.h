// Packed matrices in a file, so that all processes that open the same graphs have them in the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace xuanzang {

// Zeros in pages of the process, which are given back when unused. Pieces of the heap would be kept.
std::shared_ptr<int8_t> own_pages(size_t count);

// Blocks of a file, one after another in the order of packing. They stay mapped as long as this
// lives.
class SharedColumns {
 public:
  explicit SharedColumns(int descriptor) : descriptor_(descriptor) {}

  // Takes in the matrices that the calling thread packs from now on; null for none.
  static void use(SharedColumns* columns) { used() = columns; }

  // Returns where the file that is used has the next block: written if the file ends there, as far as it may be. Null
  // if no file is used, or the file has other bytes in this place.
  static std::shared_ptr<const int8_t> place(const int8_t* bytes, size_t count) {
    return used() ? used()->placed(bytes, count) : nullptr;
  }

  // True if all matrices are in the file.
  bool has_all() const { return has_all_; }

  // Takes the pages out of the process; they come back from the system's cache when they are read.
  void release() const;

 private:
  struct Block {
    std::shared_ptr<int8_t> bytes;
    size_t count;
  };

  static SharedColumns*& used() {
    thread_local SharedColumns* columns = nullptr;
    return columns;
  }

  std::shared_ptr<const int8_t> placed(const int8_t* bytes, size_t count);

  const int descriptor_;
  bool has_all_ = true;
  size_t position_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace xuanzang
