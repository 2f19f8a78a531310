extern "C" __global__ void k(int*lock,int*c){
  if(threadIdx.x==0){
    while(atomicCAS(lock,0,1)!=0);
    __threadfence();
    c[0]=c[0]+1;
    __threadfence();
    atomicExch(lock,0);
  }
}
