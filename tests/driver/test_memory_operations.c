/* shows: The Driver API for programs: stream memory operations in graphs, added and captured */
/* test_memory_operations.c: cuStreamWaitValue32 and its like in graphs, of libcuda.so.1 of programs. */
#include "tests/driver/driver_test.h"

static CUstreamBatchMemOpParams write_of(CUdeviceptr address, unsigned value)
{
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    p.writeValue.address = address;
    p.writeValue.value = value;
    return p;
}

static CUstreamBatchMemOpParams wait_of(CUdeviceptr address, unsigned value)
{
    CUstreamBatchMemOpParams p = write_of(address, value);
    p.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return p;
}

/* Nodes of stream memory operations, made by hand and by capture. One branch waits for what the other one writes. */
TEST(memory_operations_in_graphs)
{
    CUdeviceptr words;
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode node, first, nodes[4];
    CUgraphNodeType type;
    CUDA_BATCH_MEM_OP_NODE_PARAMS found;
    size_t count = 4;
    OK(cuMemAlloc(&words, 64));
    OK(cuMemsetD32(words, 0, 16));
    OK(cuCtxSynchronize()); /* the streams below do not wait for the memset */
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstreamBatchMemOpParams list[2] = { write_of(words, 5), write_of(words + 4, 6) };
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = { context, 2, list, 0 };
    OK(cuGraphCreate(&graph, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, NULL));
    p.flags = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
    p.flags = 0;
    p.count = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
    p.count = 2;
    list[1].writeValue.address = words + 6;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
    list[1].writeValue.address = words + 4;
    OK(cuGraphAddBatchMemOpNode(&first, graph, NULL, 0, &p));
    CUgraphNodeParams any;
    memset(&any, 0, sizeof any);
    CUstreamBatchMemOpParams wait = wait_of(words + 8, 1);
    any.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    any.memOp.ctx = context;
    any.memOp.count = 1;
    any.memOp.paramArray = &wait;
    OK(cuGraphAddNode(&node, graph, &first, NULL, 1, &any));
    CUstreamBatchMemOpParams write = write_of(words + 8, 1), behind = write_of(words + 12, 7);
    p = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ context, 1, &behind, 0 };
    OK(cuGraphAddBatchMemOpNode(&nodes[0], graph, &node, 1, &p));
    p.paramArray = &write;
    OK(cuGraphAddBatchMemOpNode(&nodes[1], graph, NULL, 0, &p));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    OK(cuGraphBatchMemOpNodeGetParams(first, &found));
    assert_true(found.count == 2 && found.ctx == context && found.paramArray[1].writeValue.value == 6);
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    assert_true(read_word(words) == 5 && read_word(words + 4) == 6 && read_word(words + 12) == 7);
    /* Values may change in an executable; kinds and their number may not. */
    behind.writeValue.value = 8;
    p.paramArray = &behind;
    OK(cuGraphExecBatchMemOpNodeSetParams(executable, nodes[0], &p));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(read_word(words + 12), 8);
    p.paramArray = &wait;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecBatchMemOpNodeSetParams(executable, nodes[0], &p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecBatchMemOpNodeSetParams(executable, first, &p));
    behind.writeValue.value = 9;
    p.paramArray = &behind;
    OK(cuGraphBatchMemOpNodeSetParams(nodes[0], &p));
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate(executable, graph, &info));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(read_word(words + 12), 9);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    /* Captured: nothing runs before the launch, and then the stream waits for another one. */
    OK(cuMemsetD32(words, 0, 16));
    OK(cuCtxSynchronize()); /* the streams below do not wait for the memset */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWaitValue32(stream, words, 3, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue64(stream, words + 8, 11, 0));
    OK(cuStreamBatchMemOp(stream, 2, list, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, words + 1, 1, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    OK(cuGraphBatchMemOpNodeGetParams(nodes[0], &found));
    assert_true(found.count == 1 && found.paramArray[0].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
                found.paramArray[0].waitValue.value == 3);
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    OK(cuStreamWriteValue32(other, words, 3, 0));
    OK(cuStreamSynchronize(stream));
    const unsigned seen[] = { read_word(words), read_word(words + 4), read_word(words + 8) };
    assert_true(seen[0] == 5 && seen[1] == 6 && seen[2] == 11);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuMemFree(words));
}

int main(void) { return unit_run(primary_set_up, primary_tear_down); }
