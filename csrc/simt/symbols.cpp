// Names of kernels, read from the symbol table of the module's own file.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "executor.h"

namespace cudml::simt {
namespace {

std::string demangle(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

/// "void cudml::cuda::pad_kernel<float>(cudml::Plan)" without what it returns and takes, or nothing
/// where this is not a kernel: kernels are named so, and live in the namespace or below it.
std::string kernel_in(const std::string& symbol) {
  int depth = 0;
  size_t begin = 0, end = symbol.size(), name_end = 0;
  for (size_t i = 0; i < symbol.size() && end == symbol.size(); ++i) {
    const char c = symbol[i];
    if (c == '(' && depth == 0) end = i;
    if (c == '<' && depth == 0 && !name_end) name_end = i;
    if (c == ' ' && depth == 0) begin = i + 1, name_end = 0;
    depth += (c == '<' || c == '(') - (c == '>' || c == ')');
  }
  const std::string whole = symbol.substr(begin, end - begin);
  const std::string name = symbol.substr(begin, (name_end ? name_end : end) - begin);
  return name.starts_with("cudml::") && name.ends_with("_kernel") ? whole : "";
}

/// Addresses in the running process of every kernel of this module.
std::map<const void*, std::string> read_kernels() {
  Dl_info module;
  if (!dladdr(reinterpret_cast<const void*>(&all_kernels), &module)) return {};
  std::ifstream file(module.dli_fname, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  if (bytes.size() < sizeof *header) return {};
  const uintptr_t base =
      header->e_type == ET_DYN ? reinterpret_cast<uintptr_t>(module.dli_fbase) : 0;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
  std::map<const void*, std::string> kernels;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes.data() + sections[i].sh_offset);
    const char* names = bytes.data() + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k) {
      if (ELF64_ST_TYPE(symbols[k].st_info) != STT_FUNC || !symbols[k].st_value) continue;
      const std::string_view mangled = names + symbols[k].st_name;
      // Not what lives inside a kernel (_ZZ), nor parts that the compiler split off (a dot).
      if (!mangled.starts_with("_ZN") || mangled.find('.') != mangled.npos) continue;
      const std::string name = kernel_in(demangle(mangled.data()));
      if (!name.empty()) kernels[reinterpret_cast<const void*>(base + symbols[k].st_value)] = name;
    }
  }
  return kernels;
}

const std::map<const void*, std::string>& kernels() {
  static const std::map<const void*, std::string> read = read_kernels();
  return read;
}

}  // namespace

std::string kernel_name(const void* address) {
  const auto found = kernels().find(address);
  return found == kernels().end() ? "an unknown kernel" : found->second;
}

std::vector<std::string> all_kernels() {
  std::vector<std::string> names;
  for (const auto& [address, name] : kernels()) names.push_back(name);
  return names;
}

}  // namespace cudml::simt
