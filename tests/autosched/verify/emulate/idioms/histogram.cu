extern "C" __global__ void k(int*o,const int*x,int n){
  __shared__ int h[64];
  for(int i=threadIdx.x;i<64;i+=128)
    h[i]=0;
  __syncthreads();
  for(int i=blockIdx.x*128+threadIdx.x;i<n;i+=gridDim.x*128)
    atomicAdd(&h[x[i]],1);
  __syncthreads();
  for(int i=threadIdx.x;i<64;i+=128)
    atomicAdd(&o[i],h[i]);
}
