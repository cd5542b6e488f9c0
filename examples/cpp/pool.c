/* Average pooling from C: the descriptor, what it takes, the execution, and a refusal. */
#include <cudml/cudml.h>
#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, cudml_last_error());
  return 1;
}

int main(void) {
  const UINT sizes[] = {1, 1, 2, 4}, pooled[] = {1, 1, 1, 2}, two[] = {2, 2}, zero[] = {0, 0};
  const DML_BUFFER_TENSOR_DESC x_buffer = {
      DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, sizes, NULL, 32, 0};
  const DML_BUFFER_TENSOR_DESC y_buffer = {
      DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 4, pooled, NULL, 8, 0};
  const DML_TENSOR_DESC x_tensor = {DML_TENSOR_TYPE_BUFFER, &x_buffer};
  const DML_TENSOR_DESC y_tensor = {DML_TENSOR_TYPE_BUFFER, &y_buffer};
  DML_AVERAGE_POOLING_OPERATOR_DESC pooling = {&x_tensor, &y_tensor, 2,    two,
                                               two,       zero,      zero, FALSE};
  const DML_OPERATOR_DESC desc = {DML_OPERATOR_AVERAGE_POOLING, &pooling};

  cudml_operator* op = NULL;
  cudml_compiled* compiled = NULL;
  if (cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op)) return failed("create");
  if (cudml_operator_compile(op, "cpu", &compiled)) return failed("compile");
  cudml_operator_destroy(op);

  const float x[] = {3, 1, 4, 1, 5, 9, 2, 6};
  float y[2];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  cudml_execution execution = {.size = sizeof execution, .inputs = inputs, .outputs = outputs};
  execution.input_count = execution.output_count = 1;
  if (cudml_execute(compiled, &execution)) return failed("execute");
  cudml_compiled_destroy(compiled);
  printf("cudml %s: %g %g\n", cudml_version(), y[0], y[1]);

  pooling.WindowSize = zero;
  if (cudml_operator_create(&desc, DML_FEATURE_LEVEL_6_4, &op) == CUDML_INVALID_ARGUMENT)
    printf("refused: %s\n", cudml_last_error());
  return 0;
}
