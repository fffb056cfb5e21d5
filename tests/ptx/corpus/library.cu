// What libraries give: thrust and cub.
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

int run(thrust::device_vector<int> &v, thrust::device_vector<float> &f)
{
    thrust::sort(v.begin(), v.end());
    thrust::stable_sort_by_key(f.begin(), f.end(), v.begin(), thrust::greater<float>());
    thrust::inclusive_scan(v.begin(), v.end(), v.begin());
    return thrust::reduce(v.begin(), v.end());
}
