extern "C" __global__ void k(float*o,const float*x,int m,int n){
  __shared__ float s[32][33];
  int c=blockIdx.x*32+threadIdx.x, r0=blockIdx.y*32;
  for(int j=threadIdx.y;j<32;j+=8)
    if(r0+j<m && c<n) s[j][threadIdx.x]=x[(r0+j)*n+c];
  __syncthreads();
  int c2=r0+threadIdx.x, r2=blockIdx.x*32;
  for(int j=threadIdx.y;j<32;j+=8)
    if(r2+j<n && c2<m) o[(r2+j)*m+c2]=s[threadIdx.x][j];
}
