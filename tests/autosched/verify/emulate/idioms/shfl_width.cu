extern "C" __global__ void k(float*o,const float*x){
  int t=threadIdx.x;
  float v=x[t];
  for(int d=1;d<8;d<<=1){
    float u=__shfl_up_sync(~0u,v,d,8);
    if(t%8>=d) v+=u;
  }
  o[t]=v;
}
