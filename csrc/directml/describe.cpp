// A lowered descriptor in words.
#include "core/check.h"
#include "directml/lower.h"
#include "ops/activation.h"

namespace cudml::directml {
namespace {

const char* name_of(PoolKind kind) {
  switch (kind) {
    case PoolKind::max: return "max pooling";
    case PoolKind::average: return "average pooling";
    case PoolKind::lp: return "lp pooling";
  }
  return "";
}

const char* name_of(MvnGradKind kind) {
  switch (kind) {
    case MvnGradKind::whole: return "gradient of mean-variance normalization over axes ";
    case MvnGradKind::sums: return "sums of the gradient of normalization over axes ";
    case MvnGradKind::part: return "gradient of normalization with given statistics";
  }
  return "";
}

const char* name_of(bool value) { return value ? "true" : "false"; }

const char* name_of(Border mode) {
  constexpr const char* kNames[] = {"constant", "edge", "reflection", "symmetric", "wrap"};
  return kNames[size_t(mode)];
}

void write(std::ostream& out, const PoolDesc& desc) {
  out << name_of(desc.kind) << " over axes " << desc.axes << ": window_size " << desc.window_size
      << ", strides " << desc.strides << ", start_padding " << desc.start_padding
      << ", end_padding " << desc.end_padding << ", dilations " << desc.dilations
      << ", output_sizes " << desc.output_sizes;
  if (desc.kind == PoolKind::average) out << ", include_padding " << name_of(desc.include_padding);
  if (desc.kind == PoolKind::lp) out << ", p " << desc.p;
}

void write(std::ostream& out, const PoolGradDesc& desc) {
  out << "gradient for input_sizes " << desc.input_sizes << " of ";
  write(out, desc.forward);
}

void write(std::ostream& out, const PadDesc& desc) {
  out << "padding " << name_of(desc.mode[0]) << ": start_padding " << desc.start_padding
      << ", end_padding " << desc.end_padding << ", value bytes";
  for (unsigned char byte : desc.value.bytes)
    out << ' ' << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
}

void write(std::ostream& out, const UnpoolDesc& desc) {
  out << "max unpooling: output_sizes " << desc.output_sizes;
}

void write(std::ostream& out, const PadGradDesc& desc) {
  out << "gradient for input_sizes " << desc.input_sizes << " of padding " << name_of(desc.mode)
      << ": start_padding " << desc.start_padding << ", end_padding " << desc.end_padding;
}

void write_ending(std::ostream& out, double epsilon, const Activation& activation) {
  out << "epsilon " << epsilon << ", activation " << find_activation(activation.kind)->name << '('
      << activation.a << ", " << activation.b << ')';
}

void write(std::ostream& out, const MvnDesc& desc) {
  out << "mean-variance normalization over axes " << desc.axes << ": use_mean "
      << name_of(desc.use_mean) << ", use_variance " << name_of(desc.use_variance) << ", ";
  write_ending(out, desc.epsilon, desc.activation);
}

void write(std::ostream& out, const MvnGradDesc& desc) {
  out << name_of(desc.kind);
  if (desc.kind != MvnGradKind::part) out << desc.axes;
  out << ": ";
  if (desc.kind == MvnGradKind::whole)
    out << "use_mean " << name_of(desc.use_mean) << ", use_variance " << name_of(desc.use_variance)
        << ", ";
  write_ending(out, desc.epsilon, desc.activation);
}

void write(std::ostream& out, const StatisticsDesc& desc) {
  out << "statistics of normalization over axes " << desc.axes << ": use_mean "
      << name_of(desc.use_mean) << ", dtype " << cudml::name_of(desc.dtype);
}

void write(std::ostream& out, const MergeDesc&) { out << "merge of statistics"; }

void write(std::ostream& out, const NormalizeDesc& desc) {
  out << "normalization with given statistics: ";
  write_ending(out, desc.epsilon, desc.activation);
}

}  // namespace

std::string describe(const Lowered& lowered) {
  TextStream out;
  out.precision(9);
  out << lowered.op << '\n';
  for (const Tensor& tensor : lowered.tensors) {
    out << "  " << tensor.field << ": ";
    if (tensor.present)
      out << cudml::name_of(tensor.desc.dtype) << ' ' << tensor.desc.sizes << " strides "
          << tensor.desc.strides << '\n';
    else
      out << "absent\n";
  }
  out << "  ";
  std::visit([&](const auto& desc) { write(out, desc); }, lowered.desc);
  out << '\n';
  return out.str();
}

}  // namespace cudml::directml
