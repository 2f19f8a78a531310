extern "C" __global__ void k(float*o,const float*x){
  __shared__ float s[2][32];
  int w=threadIdx.x/32,l=threadIdx.x%32;
  if(w==0){
    for(int i=0;i<4;i++){
      if(i>=2) asm volatile("bar.sync %0,64;"::"r"(3+i%2):"memory");
      s[i%2][l]=x[i*32+l];
      asm volatile("bar.arrive %0,64;"::"r"(1+i%2):"memory");
    }
  } else {
    for(int i=0;i<4;i++){
      asm volatile("bar.sync %0,64;"::"r"(1+i%2):"memory");
      o[i*32+l]=s[i%2][31-l];
      if(i<2) asm volatile("bar.arrive %0,64;"::"r"(3+i%2):"memory");
    }
  }
}
