extern "C" __global__ void k(float*o,const float*x,int n){
  int i=(blockIdx.x*64+threadIdx.x)*4;
  if(i+3<n){
    float4 v=*(const float4*)(x+i);
    v.x*=2;v.y*=2;v.z*=2;v.w*=2;
    *(float4*)(o+i)=v;
  } else for(int j=i;j<n;j++)
    o[j]=2*x[j];
}
