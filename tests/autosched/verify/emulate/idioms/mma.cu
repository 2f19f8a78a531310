#include <cuda_fp16.h>
extern "C" __global__ void k(float*o,const half*a,const half*b){
  __shared__ alignas(16) half sa[16][24], sb[16][24];
  int t=threadIdx.x;
  for(int i=t;i<256;i+=32){ sa[i/16][i%16]=a[i]; if(i%16<8) sb[i/16][i%16]=b[i/16*8+i%16]; }
  __syncwarp();
  unsigned pa=__cvta_generic_to_shared(&sa[t%16][t/16*8]), pb=__cvta_generic_to_shared(&sb[t%16][0]);
  unsigned ra[4],rb[2]; float d[4]={0,0,0,0};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];":"=r"(ra[0]),"=r"(ra[1]),"=r"(ra[2]),"=r"(ra[3]):"r"(pa));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1},[%2];":"=r"(rb[0]),"=r"(rb[1]):"r"(pb));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};":"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]):"r"(ra[0]),"r"(ra[1]),"r"(ra[2]),"r"(ra[3]),"r"(rb[0]),"r"(rb[1]));
  for(int i=0;i<4;i++) o[(t/4+8*(i/2))*8+t%4*2+i%2]=d[i];
}
