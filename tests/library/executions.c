// What operators say of themselves, structs of other sizes, and executions that are wrong where
// several tensors or a workspace are: a line for each.
#include <cudml/cudml.h>
#include <stdio.h>
#include <string.h>

static const UINT kSizes[] = {2, 2, 4, 6}, kStrides[] = {64, 32, 8, 1}, kPooled[] = {2, 2, 2, 3};
static const UINT kTwo[] = {2, 2}, kNone[] = {0, 0}, kOnes[] = {1, 1}, kAxes[] = {2, 3};
static const DML_BUFFER_TENSOR_DESC kInput = {
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, kSizes, kStrides, 512, 0};
static const DML_BUFFER_TENSOR_DESC kOutput = {
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, kPooled, NULL, 96, 0};
static const DML_BUFFER_TENSOR_DESC kIndices = {
    DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE, 4, kPooled, NULL, 96, 0};
static const DML_TENSOR_DESC kX = {DML_TENSOR_TYPE_BUFFER, &kInput};
static const DML_TENSOR_DESC kY = {DML_TENSOR_TYPE_BUFFER, &kOutput};
static const DML_TENSOR_DESC kI = {DML_TENSOR_TYPE_BUFFER, &kIndices};

static void show(const char* name, cudml_status status) {
  printf("%s|%d|%s\n", name, (int)status, status ? cudml_last_error() : "");
}

static cudml_compiled* compiled_of(DML_OPERATOR_TYPE type, const void* desc) {
  const DML_OPERATOR_DESC operator_desc = {type, desc};
  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  if (cudml_operator_create(&operator_desc, DML_FEATURE_LEVEL_6_4, &op) ||
      cudml_operator_compile(op, "cpu", &compiled))
    puts(cudml_last_error());
  cudml_operator_destroy(op);
  return compiled;
}

static cudml_compiled* pooling(void) {
  const DML_MAX_POOLING1_OPERATOR_DESC desc = {&kX, &kY, &kI, 2, kTwo, kTwo, kNone, kNone};
  return compiled_of(DML_OPERATOR_MAX_POOLING1, &desc);
}

static cudml_compiled* gradient(void) {
  const DML_MAX_POOLING_GRAD_OPERATOR_DESC desc = {&kX,  &kY,   &kX,   2,    kTwo,
                                                   kTwo, kNone, kNone, kOnes};
  return compiled_of(DML_OPERATOR_MAX_POOLING_GRAD, &desc);
}

static cudml_compiled* normalization(void) {
  const DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC desc = {&kX,   &kX,  NULL,  &kX, 2,
                                                               kAxes, TRUE, 1e-5f, NULL};
  return compiled_of(DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1, &desc);
}

static void show_tensor(const cudml_tensor* t) {
  printf("%s type %d bytes %d rank %u:", t->field, (int)t->data_type, (int)t->bytes,
         t->dimension_count);
  for (UINT d = 0; d < t->dimension_count; ++d)
    printf(" %d/%d", (int)t->sizes[d], (int)t->strides[d]);
  puts("|0|");
}

static void tensors(void) {
  cudml_compiled* pool = pooling();
  cudml_tensor tensor;
  tensor.size = sizeof tensor;
  show("input", cudml_compiled_input(pool, 0, &tensor));
  show_tensor(&tensor);
  for (UINT i = 0; i < 2; ++i) {
    show("output", cudml_compiled_output(pool, i, &tensor));
    show_tensor(&tensor);
  }
  cudml_compiled_destroy(pool);
}

/* A caller that knows more fields than the library: those are left alone. */
static void newer(void) {
  cudml_compiled* pool = pooling();
  struct {
    cudml_properties known;
    UINT64 unknown;
  } more;
  memset(&more, 0x5a, sizeof more);
  more.known.size = sizeof more;
  show("newer properties", cudml_compiled_properties(pool, &more.known));
  printf("%d inputs, %d outputs, device %d, %d bytes, %s|0|\n", (int)more.known.input_count,
         (int)more.known.output_count, (int)more.known.device, (int)more.known.workspace_bytes,
         more.known.size == sizeof more && more.unknown == 0x5a5a5a5a5a5a5a5au ? "as it was"
                                                                               : "overwritten");
  cudml_compiled_destroy(pool);
}

#define BROKEN(name, op, change)         \
  do {                                   \
    cudml_execution bad = good;          \
    change;                              \
    show(name, cudml_execute(op, &bad)); \
  } while (0)

static void pools(void) {
  static float x[128], y[24], i[24];
  static UINT64 large[4096 / 8];
  cudml_compiled* pool = pooling();
  const void* inputs[] = {x};
  void *outputs[] = {y, i}, *none[] = {y, NULL}, *first[] = {NULL, i}, *same[] = {y, y + 23};
  const cudml_execution good = {sizeof good, inputs, outputs, 1, 2, NULL, 0, NULL, 0, NULL};
  BROKEN("no memory for the first output", pool, bad.outputs = first);
  BROKEN("no memory for the second output", pool, bad.outputs = none);
  BROKEN("outputs that overlap", pool, bad.outputs = same);
  BROKEN("persistent bytes", pool, bad.persistent_bytes = 4);
  BROKEN("a workspace that nothing needs", pool, bad.workspace = x);
  BROKEN("no inputs at all", pool, (bad.inputs = NULL, bad.input_count = 0));
  BROKEN("no outputs at all", pool, (bad.outputs = NULL, bad.output_count = 0));
  memcpy(large, &good, sizeof good);
  ((cudml_execution*)large)->size = sizeof large;
  show("the largest execution", cudml_execute(pool, (cudml_execution*)large));
  ((cudml_execution*)large)->size = sizeof large + 1;
  show("a larger one", cudml_execute(pool, (cudml_execution*)large));
  cudml_compiled_destroy(pool);
}

static void workspaces(void) {
  static float x[128], dy[24], dx[128 + 1024];
  static UINT64 scratch[4096];
  cudml_compiled* grad = gradient();
  cudml_properties p = {0};
  const void* inputs[] = {x, dy};
  void* outputs[] = {dx};
  const cudml_execution good = {sizeof good, inputs,         outputs, 2, 1,
                                scratch,     sizeof scratch, NULL,    0, NULL};
  p.size = sizeof p;
  cudml_compiled_properties(grad, &p);
  if (!p.workspace_bytes || p.workspace_bytes > sizeof scratch) puts("another workspace");
  BROKEN("enough", grad, bad.workspace_bytes = p.workspace_bytes);
  BROKEN("too little", grad, bad.workspace_bytes = p.workspace_bytes - 1);
  BROKEN("at an odd address", grad, bad.workspace = (char*)scratch + 4);
  BROKEN("in the first input", grad, bad.workspace = x);
  BROKEN("in the second input", grad, bad.workspace = dy);
  BROKEN("in the output", grad, bad.workspace = dx + 124);
  BROKEN("behind the output", grad, bad.workspace = dx + 126);
  BROKEN("its own", grad, bad.workspace = NULL);
  const char* text = "";
  show("explained", cudml_compiled_explain(grad, &text));
  char want[64];
  snprintf(want, sizeof want, "workspace  %d bytes", (int)p.workspace_bytes);
  printf("%s, %s|0|\n", strstr(text, want) ? "with its workspace" : "without it",
         strstr(text, "pools      dimensions 2, 3") ? "with its dimensions" : "without them");
  cudml_compiled_destroy(grad);
}

static void in_place(void) {
  static float x[256], scale[256], y[128];
  cudml_compiled* norm = normalization();
  const void* inputs[] = {x, scale};
  void *outputs[] = {x}, *shifted[] = {x + 4}, *other[] = {scale}, *apart[] = {y};
  const cudml_execution good = {sizeof good, inputs, outputs, 2, 1, NULL, 0, NULL, 0, NULL};
  BROKEN("into its input", norm, (void)0);
  BROKEN("into a part of its input", norm, bad.outputs = shifted);
  BROKEN("into its scale", norm, bad.outputs = other);
  BROKEN("apart", norm, bad.outputs = apart);
  cudml_compiled_destroy(norm);
}

static void devices(void) {
  const char* names[] = {"cuda:", "cuda:1234", "cudax1", "cuda:x", "cpu:0", ""};
  const DML_MAX_UNPOOLING_OPERATOR_DESC desc = {&kY, &kI, &kX};
  const DML_OPERATOR_DESC operator_desc = {DML_OPERATOR_MAX_UNPOOLING, &desc};
  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  show("an unpooling", cudml_operator_create(&operator_desc, DML_FEATURE_LEVEL_6_4, &op));
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    show("no device", cudml_operator_compile(op, names[i], &compiled));
  cudml_operator_destroy(op);
}

int main(void) {
  tensors();
  newer();
  pools();
  workspaces();
  in_place();
  devices();
  return 0;
}
