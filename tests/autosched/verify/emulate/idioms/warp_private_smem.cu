extern "C" __global__ void k(float*o,const float*x){
  __shared__ float s[4][32];
  int w=threadIdx.x/32,l=threadIdx.x%32;
  for(int i=0;i<3;i++){
    s[w][l]=x[i*128+threadIdx.x];
    __syncwarp();
    o[i*128+threadIdx.x]=s[w][31-l];
    __syncwarp();
  }
}
