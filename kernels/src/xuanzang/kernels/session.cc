#include "session.h"

namespace xuanzang {
namespace {

// Returns the result of one of onnxruntime's functions.
template <typename T, typename... Parameters, typename... Arguments>
T* made(const OrtApi& api, OrtStatus* (*function)(Parameters...), Arguments... arguments) {
  T* object = nullptr;
  check(api, function(arguments..., &object));
  return object;
}

// A process has one environment, which the Python package has made already; it is never released.
OrtEnv* environment(const OrtApi& api) {
  static OrtEnv* const env = made<OrtEnv>(api, api.CreateEnv, kOrtError, "xuanzang");
  return env;
}

OrtSession* opened(const Library& library, const SessionSettings& settings) {
  const OrtApi& api = library.api();
  const Owned<OrtSessionOptions> options(made<OrtSessionOptions>(api, api.CreateSessionOptions),
                                         api.ReleaseSessionOptions);
  check(api, api.SetSessionLogSeverityLevel(options.get(), kOrtError));
  // A pattern is made and kept for each combination of dimensions, which hardly come again.
  check(api, api.DisableMemPattern(options.get()));
  check(api, api.SetInterOpNumThreads(options.get(), 1));
  check(api, settings.threads == 1 ? api.SetIntraOpNumThreads(options.get(), 1)
                                   : api.DisablePerSessionThreads(options.get()));
  check(api, api.AddSessionConfigEntry(options.get(), "optimization.disable_specified_optimizers",
                                       settings.disabled_optimizers));
  // EXACT_PRODUCTS in __init__.py.
  check(api, api.AddSessionConfigEntry(options.get(), "session.x64quantprecision", "1"));
  library.add_to(options.get());
  return made<OrtSession>(api, api.CreateSession, environment(api), settings.path, options.get());
}

std::string names_of(const OrtApi& api, const OrtSession* session) {
  using Count = OrtStatus* (*)(const OrtSession*, size_t*);
  using Name = OrtStatus* (*)(const OrtSession*, size_t, OrtAllocator*, char**);
  OrtAllocator* const allocator = made<OrtAllocator>(api, api.GetAllocatorWithDefaultOptions);
  std::string names;
  const auto add = [&](Count count_of, Name name_of) {
    size_t count = 0;
    check(api, count_of(session, &count));
    for (size_t index = 0; index < count; ++index) {
      char* const name = made<char>(api, name_of, session, index, allocator);
      names.append(name).append(1, '\n');
      check(api, api.AllocatorFree(allocator, name));
    }
  };
  add(api.SessionGetInputCount, api.SessionGetInputName);
  add(api.SessionGetOutputCount, api.SessionGetOutputName);
  return names;
}

OrtRunOptions* run_options(const OrtApi& api, bool shrinks) {
  Owned<OrtRunOptions> options(made<OrtRunOptions>(api, api.CreateRunOptions), api.ReleaseRunOptions);
  if (shrinks) check(api, api.AddRunConfigEntry(options.get(), "memory.enable_memory_arena_shrinkage", "cpu:0"));
  return options.release();
}

}  // namespace

Session::Session(const Library& library, const SessionSettings& settings)
    : api_(library.api()), session_(opened(library, settings), api_.ReleaseSession), names_(names_of(api_, get())) {}

Binding::Binding(const Session& session, bool shrinks)
    : api_(session.api()),
      session_(session.get()),
      binding_(made<OrtIoBinding>(api_, api_.CreateIoBinding, session_), api_.ReleaseIoBinding),
      options_(run_options(api_, shrinks), api_.ReleaseRunOptions),
      memory_(made<OrtMemoryInfo>(api_, api_.CreateCpuMemoryInfo, kOrtDeviceAllocator, kOrtDefaultMemory),
              api_.ReleaseMemoryInfo) {}

void Binding::bind(const BoundTensor& tensor) {
  give(tensor);
  const auto kept = bound_.try_emplace(tensor.name).first;
  kept->second.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  kept->second.tensor = tensor;
  kept->second.tensor.name = kept->first.c_str();
  kept->second.tensor.shape = kept->second.shape.data();
}

const BoundTensor& Binding::bound(const std::string& name) const {
  const auto kept = bound_.find(name);
  if (kept == bound_.end()) throw std::runtime_error("nothing is bound to " + name);
  return kept->second.tensor;
}

void Binding::bind_rows(const std::string& name, int64_t rows) {
  BoundTensor tensor = bound(name);
  if (!tensor.rank || rows > tensor.shape[0]) throw std::runtime_error("too few rows are bound to " + name);
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  tensor.bytes = shape[0] ? tensor.bytes / shape[0] * rows : 0;
  shape[0] = rows;
  tensor.shape = shape.data();
  give(tensor);
}

void Binding::give(const BoundTensor& tensor) const {
  // The binding refers to it as well.
  const Owned<OrtValue> value(
      made<OrtValue>(api_, api_.CreateTensorWithDataAsOrtValue, memory_.get(), tensor.data,
                     static_cast<size_t>(tensor.bytes), tensor.shape, static_cast<size_t>(tensor.rank),
                     static_cast<OrtElementType>(tensor.type)),
      api_.ReleaseValue);
  check(api_, (tensor.is_output ? api_.BindOutput : api_.BindInput)(binding_.get(), tensor.name, value.get()));
}

void Binding::run() const { check(api_, api_.RunWithBinding(session_, options_.get(), binding_.get())); }

}  // namespace xuanzang
