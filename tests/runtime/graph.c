/* Graphs and capture: the forms that functions have in this version. tests/graph has the rest. */
#include "tests/runtime/api.h"

static void ignore(void *user) { (void)user; }

static cudaGraphNode_t host_node(cudaGraph_t graph, const cudaGraphNode_t *before, size_t count)
{
    const cudaHostNodeParams p = { ignore, NULL };
    cudaGraphNode_t node;
    assert_int_equal(cudaGraphAddHostNode(&node, graph, before, count, &p), 0);
    return node;
}

#if FLYT_CUDART >= 13
#define CONNECT(graph, from, to) cudaGraphAddDependencies(graph, from, to, NULL, 1)
#else
#define CONNECT(graph, from, to) cudaGraphAddDependencies(graph, from, to, 1)
#endif

TEST_WITH(instantiation_has_its_form, runtime_begin, NULL)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable = 0;
    assert_int_equal(cudaGraphCreate(&graph, 0), 0);
    const cudaGraphNode_t a = host_node(graph, NULL, 0), b = host_node(graph, &a, 1);
#if FLYT_CUDART == 11
    char log[64] = "?";
    cudaGraphNode_t node = 1;
    assert_int_equal(cudaGraphInstantiate(&executable, graph, &node, log, sizeof log), 0);
    assert_true(node == 0 && !log[0]);
    assert_int_equal(cudaGraphExecDestroy(executable), 0);
    assert_int_equal(CONNECT(graph, &b, &a), 0);
    assert_int_equal(cudaGraphInstantiate(&executable, graph, &node, log, sizeof log), 1);
    assert_true((node == a || node == b) && log[0]);
    assert_int_equal(cudaGraphInstantiate(&executable, graph, NULL, NULL, 0), 1);
#else
    cudaGraphInstantiateParams p = { .flags = 1 };
    unsigned long long flags = 9;
    assert_int_equal(cudaGraphInstantiate(&executable, graph, 0), 0);
    assert_int_equal(cudaGraphExecGetFlags(executable, &flags), 0);
    assert_int_equal(flags, 0);
    assert_int_equal(cudaGraphExecDestroy(executable), 0);
    assert_int_equal(cudaGraphInstantiateWithParams(&executable, graph, &p), 0);
    assert_int_equal(p.result_out, cudaGraphInstantiateSuccess);
    assert_int_equal(cudaGraphExecGetFlags(executable, &flags), 0);
    assert_int_equal(flags, 1);
    assert_int_equal(cudaGraphExecDestroy(executable), 0);
    assert_int_equal(CONNECT(graph, &b, &a), 0);
    assert_int_equal(cudaGraphInstantiateWithParams(&executable, graph, &p), 1);
    assert_true(p.result_out == cudaGraphInstantiateInvalidStructure && (p.errNode_out == a || p.errNode_out == b));
#endif
    assert_int_equal(cudaGetLastError(), 1);
    assert_int_equal(cudaGraphDestroy(graph), 0);
}

TEST_WITH(update_has_its_form, runtime_begin, NULL)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_int_equal(cudaGraphCreate(&graph, 0), 0);
    const cudaGraphNode_t a = host_node(graph, NULL, 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&executable, graph, 0), 0);
    const cudaGraphNode_t b = host_node(graph, &a, 1);
#if FLYT_CUDART == 11
    cudaGraphNode_t node = 0;
    cudaGraphExecUpdateResult result = cudaGraphExecUpdateSuccess;
    assert_int_equal(cudaGraphExecUpdate(executable, graph, &node, &result), 910);
    assert_true(node == b && result == cudaGraphExecUpdateErrorTopologyChanged);
#else
    cudaGraphExecUpdateResultInfo info;
    assert_int_equal(cudaGraphExecUpdate(executable, graph, &info), 910);
    assert_true(info.errorNode == b && info.result == cudaGraphExecUpdateErrorTopologyChanged);
#endif
    assert_int_equal(cudaGraphExecDestroy(executable), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
}

TEST_WITH(edges_have_their_form, runtime_begin, NULL)
{
    cudaGraph_t graph;
    cudaGraphNode_t from = 0, to = 0;
    size_t count = 1;
    assert_int_equal(cudaGraphCreate(&graph, 0), 0);
    const cudaGraphNode_t a = host_node(graph, NULL, 0), b = host_node(graph, &a, 1);
#if FLYT_CUDART == 11
    assert_int_equal(cudaGraphGetEdges(graph, &from, &to, &count), 0);
#else
    cudaGraphEdgeData edge = { .type = 9 };
#if FLYT_CUDART == 12
    assert_int_equal(cudaGraphGetEdges_v2(graph, &from, &to, &edge, &count), 0);
#else
    assert_int_equal(cudaGraphGetEdges(graph, &from, &to, &edge, &count), 0);
#endif
    assert_int_equal(edge.type, 0);
    cudaGraphNodeParams p = { .type = cudaGraphNodeTypeEmpty };
    cudaGraphNode_t any;
#if FLYT_CUDART == 12
    assert_int_equal(cudaGraphAddNode(&any, graph, &b, 1, &p), 0);
#else
    assert_int_equal(cudaGraphAddNode(&any, graph, &b, NULL, 1, &p), 0);
#endif
    p.type = cudaGraphNodeTypeExtSemaphoreSignal;
#if FLYT_CUDART == 12
    assert_int_equal(cudaGraphAddNode_v2(&any, graph, &b, NULL, 1, &p), 801);
#else
    assert_int_equal(cudaGraphAddNode(&any, graph, &b, NULL, 1, &p), 801);
#endif
    p.type = (cudaGraphNodeType)99;
    assert_int_equal(cudaGraphNodeSetParams(any, &p), 1);
#endif
    assert_true(count == 1 && from == a && to == b);
    assert_int_equal(cudaGraphDestroy(graph), 0);
}

TEST_WITH(capture_information_has_its_form, runtime_begin, NULL)
{
    core_stream stream;
    cudaGraph_t graph, captured = 0;
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, 1), 0);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), 0);
    assert_int_equal(cudaLaunchHostFunc(stream, ignore, NULL), 0);
    const cudaGraphNode_t *before = NULL;
    size_t count = 0;
#if FLYT_CUDART <= 12
    assert_int_equal(cudaStreamGetCaptureInfo(stream, &status, &id), 0);
    assert_true(status == cudaStreamCaptureStatusActive && id);
    assert_int_equal(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &before, &count), 0);
#else
    const cudaGraphEdgeData *edges = NULL;
    assert_int_equal(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &edges, &count), 0);
    assert_non_null(edges);
#endif
    assert_true(count == 1 && before && before[0]);
    assert_int_equal(cudaStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_int_equal(cudaStreamAddCallback(stream, NULL, NULL, 0), 1);
    assert_int_equal(cudaStreamEndCapture(stream, &captured), 0);
    assert_int_equal(captured, graph);
    assert_int_equal(cudaStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    assert_int_equal(cudaStreamEndCapture(stream, NULL), 1);
    assert_int_equal(cudaStreamDestroy(stream), 0);
    assert_int_equal(cudaGraphDestroy(captured), 0);
}

int graph_tests(void)
{
    return unit_run(NULL, NULL);
}
