extern "C" __global__ void k(float*y,const float*x,int n){
  int i=blockIdx.x*64+threadIdx.x;
  if(i<n-1){
    float v=__ldg(x+i)+__ldg(x+i+1);
    y[i]=v;
  }
}
