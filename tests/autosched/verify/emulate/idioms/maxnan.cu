extern "C" __global__ void k(float*o,const float*x){
  float v=x[threadIdx.x];
  for(int d=16;d;d>>=1){
    float u=__shfl_xor_sync(~0u,v,d);
    v=(u>v||u!=u)?u:v;
  }
  if(threadIdx.x==0) o[0]=v;
}
