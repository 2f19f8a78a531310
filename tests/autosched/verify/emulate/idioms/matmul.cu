extern "C" __global__ void k(float*c,const float*a,const float*b,int m,int n,int kk){
  __shared__ float sa[2][16][16], sb[2][16][16];
  int tx=threadIdx.x,ty=threadIdx.y,r=blockIdx.y*16+ty,q=blockIdx.x*16+tx;
  float acc=0;
  sa[0][ty][tx]=a[r*kk+tx];
  sb[0][ty][tx]=b[ty*n+q];
  __syncthreads();
  for(int t=0;t<kk/16;t++){
    int cur=t&1;
    if(t+1<kk/16){
      sa[cur^1][ty][tx]=a[r*kk+(t+1)*16+tx];
      sb[cur^1][ty][tx]=b[((t+1)*16+ty)*n+q];
    }
    for(int i=0;i<16;i++)
      acc+=sa[cur][ty][i]*sb[cur][i][tx];
    __syncthreads();
  }
  c[r*n+q]=acc;
}
