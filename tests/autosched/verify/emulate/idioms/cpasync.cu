#include <cuda_pipeline.h>
extern "C" __global__ void k(float*o,const float*x,int tiles){
  __shared__ alignas(16) float s[3][128];
  int t=threadIdx.x; float acc=0;
  for(int p=0;p<2;p++){
    __pipeline_memcpy_async(&s[p][t*4],x+p*128+t*4,16);
    __pipeline_commit();
  }
  for(int i=0;i<tiles;i++){
    __pipeline_wait_prior(1);
    __syncthreads();
    if(i+2<tiles)
      __pipeline_memcpy_async(&s[(i+2)%3][t*4],x+(i+2)*128+t*4,16);
    __pipeline_commit();
    acc+=s[i%3][127-t]+s[i%3][t];
  }
  o[t]=acc;
}
