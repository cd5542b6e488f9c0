// Descriptors and executions that are wrong in every way a program can be, one line for each
// refusal.
#include <cudml/cudml.h>
#include <stdio.h>
#include <string.h>

static const UINT kSizes[] = {1, 2, 4, 6}, kPooled[] = {1, 2, 2, 3}, kTwo[] = {2, 2},
                  kAxes[] = {2, 3};
static const UINT kNone[2] = {0}, kOnes[] = {1, 1},
                  kHuge[] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu};

static DML_BUFFER_TENSOR_DESC x_buffer, y_buffer;
static DML_TENSOR_DESC x_tensor, y_tensor;
static DML_MAX_POOLING2_OPERATOR_DESC pooling;
static DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC mvn;
static DML_ACTIVATION_RELU_OPERATOR_DESC relu;
static DML_OPERATOR_DESC fused, desc;

/* What the test says of this case, then the status, then the message. */
static void show(const char* name, cudml_status status) {
  printf("%s|%d|%s\n", name, (int)status, status ? cudml_last_error() : "");
}

/* Valid descriptors, to be broken in one place each. */
static void reset(void) {
  const DML_BUFFER_TENSOR_DESC x = {
      DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, kSizes, NULL, 192, 0};
  const DML_BUFFER_TENSOR_DESC y = {
      DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, kPooled, NULL, 48, 0};
  x_buffer = x;
  y_buffer = y;
  x_tensor.Type = y_tensor.Type = DML_TENSOR_TYPE_BUFFER;
  x_tensor.Desc = &x_buffer;
  y_tensor.Desc = &y_buffer;
  memset(&pooling, 0, sizeof pooling);
  pooling.InputTensor = &x_tensor;
  pooling.OutputTensor = &y_tensor;
  pooling.DimensionCount = 2;
  pooling.Strides = pooling.WindowSize = kTwo;
  pooling.StartPadding = pooling.EndPadding = kNone;
  pooling.Dilations = kOnes;
  memset(&mvn, 0, sizeof mvn);
  memset(&relu, 0, sizeof relu);
  mvn.InputTensor = mvn.OutputTensor = &x_tensor;
  mvn.AxisCount = 2;
  mvn.Axes = kAxes;
  mvn.Epsilon = 1e-5f;
  mvn.FusedActivation = &fused;
  fused.Type = DML_OPERATOR_ACTIVATION_RELU;
  fused.Desc = &relu;
  desc.Type = DML_OPERATOR_MAX_POOLING2;
  desc.Desc = &pooling;
}

static void create(const char* name) {
  cudml_operator* op = (cudml_operator*)&desc; /* must be null after a refusal */
  const cudml_status status = cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op);
  show(op && status ? "an operator that was refused is not null" : name, status);
  cudml_operator_destroy(op);
  reset();
}

static void create_mvn(const char* name) {
  desc.Type = DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1;
  desc.Desc = &mvn;
  create(name);
}

static void operators(void) {
  cudml_operator* op = NULL;
  show("no descriptor", cudml_operator_create(NULL, DML_FEATURE_LEVEL_6_4, &op));
  show("no place for the operator", cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, NULL));
  show("unknown level", cudml_operator_create(&desc, (DML_FEATURE_LEVEL)0x7777, &op));
  desc.Type = (DML_OPERATOR_TYPE)-7;
  create("unknown operator");
  desc.Type = DML_OPERATOR_ACTIVATION_RELU;
  create("an activation as operator");
  desc.Desc = NULL;
  create("no struct");
}

static void tensors(void) {
  pooling.InputTensor = NULL;
  create("no input");
  x_tensor.Type = (DML_TENSOR_TYPE)9;
  create("unknown kind of tensor");
  x_tensor.Desc = NULL;
  create("no buffer");
  x_buffer.DataType = (DML_TENSOR_DATA_TYPE)77;
  create("unknown element type");
  x_buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT64;
  create("element type of another level");
  x_buffer.DimensionCount = 0xffffffffu;
  create("a rank beyond arrays");
  x_buffer.Sizes = NULL;
  create("no sizes");
  x_buffer.Sizes = kHuge;
  create("huge sizes");
  x_buffer.Strides = kHuge;
  create("huge strides");
  x_buffer.TotalTensorSizeInBytes = 4;
  create("too few bytes");
}

static void fields(void) {
  pooling.DimensionCount = 0x80000000u;
  create("a count beyond arrays");
  pooling.WindowSize = NULL;
  create("no windows");
  pooling.Dilations = NULL;
  create("no dilations");
  pooling.Strides = kNone;
  create("strides of 0");
  pooling.EndPadding = kHuge;
  create("huge pads");
}

static void normalizations(void) {
  mvn.AxisCount = 0xffffffffu;
  create_mvn("an axis count beyond arrays");
  fused.Desc = NULL;
  create_mvn("an activation without a struct");
  fused.Desc = &fused;
  create_mvn("an activation that is its own struct");
  fused.Type = DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1;
  fused.Desc = &mvn;
  create_mvn("a normalization fused into itself");
  fused.Type = (DML_OPERATOR_TYPE)1000;
  create_mvn("an unknown activation");
  create_mvn("nothing wrong");
}

static void compilations(cudml_operator* op) {
  cudml_compiled* compiled = NULL;
  const char* text = NULL;
  show("compile nothing", cudml_operator_compile(NULL, "cpu", &compiled));
  show("no device name", cudml_operator_compile(op, NULL, &compiled));
  show("unknown device", cudml_operator_compile(op, "gpu\n\x80", &compiled));
  show("no place for the compiled", cudml_operator_compile(op, "cpu", NULL));
  show("describe nothing", cudml_operator_describe(NULL, &text));
  show("no place for a text", cudml_operator_describe(op, NULL));
  show("too many threads", cudml_set_num_threads(1u << 31));
  show("no threads", cudml_set_num_threads(0));
  show("no place for threads", cudml_get_num_threads(NULL));
  cudml_operator_destroy(NULL);
  cudml_compiled_destroy(NULL);
}

static void queries(cudml_compiled* compiled) {
  cudml_properties properties = {0};
  cudml_tensor tensor = {0};
  show("properties without a size", cudml_compiled_properties(compiled, &properties));
  show("a tensor without a size", cudml_compiled_input(compiled, 0, &tensor));
  tensor.size = sizeof tensor;
  show("an input that is not there", cudml_compiled_input(compiled, 1, &tensor));
  show("an output that is not there", cudml_compiled_output(compiled, 0xffffffffu, &tensor));
  show("no tensor", cudml_compiled_output(compiled, 0, NULL));
  show("explain nothing", cudml_compiled_explain(NULL, NULL));
}

static void executions(cudml_compiled* compiled) {
  static float x[48], y[12 + 1];
  const void* inputs[] = {x, x};
  void* outputs[] = {y};
  struct {
    cudml_execution known;
    UINT64 unknown;
  } newer;
  cudml_execution good = {sizeof good, inputs, outputs, 1, 1, NULL, 0, NULL, 0, NULL}, bad = good;
#define BROKEN(name, change) \
  bad = good;                \
  change;                    \
  show(name, cudml_execute(compiled, &bad))
  show("nothing to execute", cudml_execute(NULL, &good));
  show("no execution", cudml_execute(compiled, NULL));
  BROKEN("an execution without a size", bad.size = 0);
  BROKEN("an execution of a huge size", bad.size = (size_t)-1);
  BROKEN("no inputs", bad.inputs = NULL);
  BROKEN("no outputs", bad.outputs = NULL);
  BROKEN("too many inputs", bad.input_count = 2);
  BROKEN("too few outputs", bad.output_count = 0);
  BROKEN("a stream on the CPU", bad.stream = x);
  BROKEN("persistent memory", bad.persistent = x);
  inputs[0] = NULL;
  BROKEN("no memory", (void)0);
  inputs[0] = (const char*)x + 1;
  BROKEN("an odd address", (void)0);
  inputs[0] = x;
  outputs[0] = x + 40;
  BROKEN("an output in the input", (void)0);
  outputs[0] = y;
  newer.known = good;
  newer.known.size = sizeof newer;
  newer.unknown = 1;
  show("a newer field", cudml_execute(compiled, &newer.known));
  newer.unknown = 0;
  show("a newer struct", cudml_execute(compiled, &newer.known));
  BROKEN("a good execution", y[12] = 7);
  if (y[12] != 7) puts("written past the output");
}

int main(void) {
  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  if (*cudml_last_error() || cudml_last_cuda_error()) puts("a failure before the first call");
  reset();
  operators();
  tensors();
  fields();
  normalizations();
  show("a good descriptor", cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op));
  compilations(op);
  show("a good compilation", cudml_operator_compile(op, "cpu", &compiled));
  cudml_operator_destroy(op);
  queries(compiled);
  executions(compiled);
  cudml_compiled_destroy(compiled);
  return 0;
}
