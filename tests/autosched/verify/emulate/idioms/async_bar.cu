#include <cuda/barrier>
extern "C" __global__ void k(float*o,const float*x){
  __shared__ cuda::barrier<cuda::thread_scope_block> full,empty;
  __shared__ float s[64];
  int t=threadIdx.x;
  if(t==0){ init(&full,128); init(&empty,128); }
  __syncthreads();
  if(t<64){
    for(int i=0;i<4;i++){
      if(i>0) empty.arrive_and_wait();
      s[t]=x[i*64+t];
      (void)full.arrive();
    }
  } else {
    for(int i=0;i<4;i++){
      full.arrive_and_wait();
      o[i*64+t-64]=s[127-t];
      if(i<3) (void)empty.arrive();
    }
  }
}
