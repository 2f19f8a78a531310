extern "C" __global__ void k(volatile int*flag,int*data,int*o){
  int b=blockIdx.x,t=threadIdx.x;
  int prev=0;
  if(b>0){
    if(t==0){ while(flag[b-1]==0);
      __threadfence(); }
    __syncthreads();
    prev=data[(b-1)*32+t];
  }
  data[b*32+t]=prev+t;
  __threadfence();
  __syncthreads();
  if(t==0) flag[b]=1;
  o[b*32+t]=prev;
}
