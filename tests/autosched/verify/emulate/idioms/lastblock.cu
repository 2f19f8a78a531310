__device__ unsigned done=0;
extern "C" __global__ void k(float*part,float*o,const float*x){
  __shared__ float s[64]; __shared__ bool last;
  int t=threadIdx.x;
  float v=x[blockIdx.x*64+t];
  for(int d=16;d;d>>=1) v+=__shfl_xor_sync(~0u,v,d);
  if(t%32==0) s[t/32]=v;
  __syncthreads();
  if(t==0){
    part[blockIdx.x]=s[0]+s[1];
    __threadfence();
    last=atomicAdd(&done,1)==gridDim.x-1;
    __threadfence();
  }
  __syncthreads();
  if(last){
    float p=t<gridDim.x?part[t]:0;
    for(int d=16;d;d>>=1) p+=__shfl_xor_sync(~0u,p,d);
    if(t==0){ o[0]=p; done=0; }
  }
}
