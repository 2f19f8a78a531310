extern "C" __global__ void k(float*o,const float*x,int n){
  __shared__ float s[256];
  int t=threadIdx.x;
  float v=0;
  for(int i=blockIdx.x*256+t;i<n;i+=gridDim.x*256)
    v+=x[i];
  s[t]=v;
  __syncthreads();
  for(int d=128;d>=1;d>>=1){
    if(t<d) s[t]+=s[t+d];
    __syncthreads();
  }
  if(t==0)
    atomicAdd(o,s[0]);
}
