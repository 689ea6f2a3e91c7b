// Graphs that the library opens itself, so that it can run one again and again without Python.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "operators.h"

namespace xuanzang {

// Arguments of XuanzangOpenGraph.
struct SessionSettings {
  const char* path;
  int64_t threads;                  // of one operation; more than 1: the threads that all graphs of the process share
  const char* disabled_optimizers;  // names with semicolons between them
};

// A graph on the CPU, with the operators for the chosen instruction set. Any number of threads may run it at the same
// time, each with its own binding.
class Session {
 public:
  // Throws std::runtime_error with onnxruntime's message if it cannot be opened.
  Session(const Library& library, const SessionSettings& settings);

  const OrtApi& api() const { return api_; }
  OrtSession* get() const { return session_.get(); }
  // Of inputs and outputs, each followed by a line break.
  const std::string& names() const { return names_; }

 private:
  const OrtApi& api_;
  const Owned<OrtSession> session_;
  const std::string names_;
};

// An input or output, in memory that the caller keeps. The shape is read at once, the data at each run.
struct BoundTensor {
  const char* name;
  void* data;
  const int64_t* shape;
  int64_t rank, bytes, type, is_output;
};

// The inputs and outputs of a session for one thread. An output may be the same memory as an input.
class Binding {
 public:
  // shrinks: whether each run gives back, at its end, the memory that the graph keeps for intermediate results.
  Binding(const Session& session, bool shrinks);

  // All throw std::runtime_error, with onnxruntime's message if it has one.
  void bind(const BoundTensor& tensor);
  void run() const;

  // The last binding of a name.
  const BoundTensor& bound(const std::string& name) const;
  // Binds, for the next runs, only the first rows of that.
  void bind_rows(const std::string& name, int64_t rows);

 private:
  struct Kept {
    BoundTensor tensor;
    std::vector<int64_t> shape;
  };

  void give(const BoundTensor& tensor) const;

  const OrtApi& api_;
  OrtSession* const session_;
  const Owned<OrtIoBinding> binding_;
  const Owned<OrtRunOptions> options_;
  const Owned<OrtMemoryInfo> memory_;
  std::unordered_map<std::string, Kept> bound_;
};

}  // namespace xuanzang
