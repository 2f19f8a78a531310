// The accumulators of wgmma as operands of inline PTX, for every n, and the numbers of the other operands.
#pragma once

// clang-format off
// The accumulator registers of a 64 x N tile: their operand numbers, and their asm operands of KIND "f" or "r".
#define AUTOSCHED_R8 "%0, %1, %2, %3"
#define AUTOSCHED_R16 AUTOSCHED_R8 ", %4, %5, %6, %7"
#define AUTOSCHED_R24 AUTOSCHED_R16 ", %8, %9, %10, %11"
#define AUTOSCHED_R32 AUTOSCHED_R24 ", %12, %13, %14, %15"
#define AUTOSCHED_R40 AUTOSCHED_R32 ", %16, %17, %18, %19"
#define AUTOSCHED_R48 AUTOSCHED_R40 ", %20, %21, %22, %23"
#define AUTOSCHED_R56 AUTOSCHED_R48 ", %24, %25, %26, %27"
#define AUTOSCHED_R64 AUTOSCHED_R56 ", %28, %29, %30, %31"
#define AUTOSCHED_R72 AUTOSCHED_R64 ", %32, %33, %34, %35"
#define AUTOSCHED_R80 AUTOSCHED_R72 ", %36, %37, %38, %39"
#define AUTOSCHED_R88 AUTOSCHED_R80 ", %40, %41, %42, %43"
#define AUTOSCHED_R96 AUTOSCHED_R88 ", %44, %45, %46, %47"
#define AUTOSCHED_R104 AUTOSCHED_R96 ", %48, %49, %50, %51"
#define AUTOSCHED_R112 AUTOSCHED_R104 ", %52, %53, %54, %55"
#define AUTOSCHED_R120 AUTOSCHED_R112 ", %56, %57, %58, %59"
#define AUTOSCHED_R128 AUTOSCHED_R120 ", %60, %61, %62, %63"
#define AUTOSCHED_R136 AUTOSCHED_R128 ", %64, %65, %66, %67"
#define AUTOSCHED_R144 AUTOSCHED_R136 ", %68, %69, %70, %71"
#define AUTOSCHED_R152 AUTOSCHED_R144 ", %72, %73, %74, %75"
#define AUTOSCHED_R160 AUTOSCHED_R152 ", %76, %77, %78, %79"
#define AUTOSCHED_R168 AUTOSCHED_R160 ", %80, %81, %82, %83"
#define AUTOSCHED_R176 AUTOSCHED_R168 ", %84, %85, %86, %87"
#define AUTOSCHED_R184 AUTOSCHED_R176 ", %88, %89, %90, %91"
#define AUTOSCHED_R192 AUTOSCHED_R184 ", %92, %93, %94, %95"
#define AUTOSCHED_R200 AUTOSCHED_R192 ", %96, %97, %98, %99"
#define AUTOSCHED_R208 AUTOSCHED_R200 ", %100, %101, %102, %103"
#define AUTOSCHED_R216 AUTOSCHED_R208 ", %104, %105, %106, %107"
#define AUTOSCHED_R224 AUTOSCHED_R216 ", %108, %109, %110, %111"
#define AUTOSCHED_R232 AUTOSCHED_R224 ", %112, %113, %114, %115"
#define AUTOSCHED_R240 AUTOSCHED_R232 ", %116, %117, %118, %119"
#define AUTOSCHED_R248 AUTOSCHED_R240 ", %120, %121, %122, %123"
#define AUTOSCHED_R256 AUTOSCHED_R248 ", %124, %125, %126, %127"
#define AUTOSCHED_D8(KIND) "+" KIND(d[0]), "+" KIND(d[1]), "+" KIND(d[2]), "+" KIND(d[3])
#define AUTOSCHED_D16(KIND) AUTOSCHED_D8(KIND), "+" KIND(d[4]), "+" KIND(d[5]), "+" KIND(d[6]), "+" KIND(d[7])
#define AUTOSCHED_D24(KIND) AUTOSCHED_D16(KIND), "+" KIND(d[8]), "+" KIND(d[9]), "+" KIND(d[10]), "+" KIND(d[11])
#define AUTOSCHED_D32(KIND) AUTOSCHED_D24(KIND), "+" KIND(d[12]), "+" KIND(d[13]), "+" KIND(d[14]), "+" KIND(d[15])
#define AUTOSCHED_D40(KIND) AUTOSCHED_D32(KIND), "+" KIND(d[16]), "+" KIND(d[17]), "+" KIND(d[18]), "+" KIND(d[19])
#define AUTOSCHED_D48(KIND) AUTOSCHED_D40(KIND), "+" KIND(d[20]), "+" KIND(d[21]), "+" KIND(d[22]), "+" KIND(d[23])
#define AUTOSCHED_D56(KIND) AUTOSCHED_D48(KIND), "+" KIND(d[24]), "+" KIND(d[25]), "+" KIND(d[26]), "+" KIND(d[27])
#define AUTOSCHED_D64(KIND) AUTOSCHED_D56(KIND), "+" KIND(d[28]), "+" KIND(d[29]), "+" KIND(d[30]), "+" KIND(d[31])
#define AUTOSCHED_D72(KIND) AUTOSCHED_D64(KIND), "+" KIND(d[32]), "+" KIND(d[33]), "+" KIND(d[34]), "+" KIND(d[35])
#define AUTOSCHED_D80(KIND) AUTOSCHED_D72(KIND), "+" KIND(d[36]), "+" KIND(d[37]), "+" KIND(d[38]), "+" KIND(d[39])
#define AUTOSCHED_D88(KIND) AUTOSCHED_D80(KIND), "+" KIND(d[40]), "+" KIND(d[41]), "+" KIND(d[42]), "+" KIND(d[43])
#define AUTOSCHED_D96(KIND) AUTOSCHED_D88(KIND), "+" KIND(d[44]), "+" KIND(d[45]), "+" KIND(d[46]), "+" KIND(d[47])
#define AUTOSCHED_D104(KIND) AUTOSCHED_D96(KIND), "+" KIND(d[48]), "+" KIND(d[49]), "+" KIND(d[50]), "+" KIND(d[51])
#define AUTOSCHED_D112(KIND) AUTOSCHED_D104(KIND), "+" KIND(d[52]), "+" KIND(d[53]), "+" KIND(d[54]), "+" KIND(d[55])
#define AUTOSCHED_D120(KIND) AUTOSCHED_D112(KIND), "+" KIND(d[56]), "+" KIND(d[57]), "+" KIND(d[58]), "+" KIND(d[59])
#define AUTOSCHED_D128(KIND) AUTOSCHED_D120(KIND), "+" KIND(d[60]), "+" KIND(d[61]), "+" KIND(d[62]), "+" KIND(d[63])
#define AUTOSCHED_D136(KIND) AUTOSCHED_D128(KIND), "+" KIND(d[64]), "+" KIND(d[65]), "+" KIND(d[66]), "+" KIND(d[67])
#define AUTOSCHED_D144(KIND) AUTOSCHED_D136(KIND), "+" KIND(d[68]), "+" KIND(d[69]), "+" KIND(d[70]), "+" KIND(d[71])
#define AUTOSCHED_D152(KIND) AUTOSCHED_D144(KIND), "+" KIND(d[72]), "+" KIND(d[73]), "+" KIND(d[74]), "+" KIND(d[75])
#define AUTOSCHED_D160(KIND) AUTOSCHED_D152(KIND), "+" KIND(d[76]), "+" KIND(d[77]), "+" KIND(d[78]), "+" KIND(d[79])
#define AUTOSCHED_D168(KIND) AUTOSCHED_D160(KIND), "+" KIND(d[80]), "+" KIND(d[81]), "+" KIND(d[82]), "+" KIND(d[83])
#define AUTOSCHED_D176(KIND) AUTOSCHED_D168(KIND), "+" KIND(d[84]), "+" KIND(d[85]), "+" KIND(d[86]), "+" KIND(d[87])
#define AUTOSCHED_D184(KIND) AUTOSCHED_D176(KIND), "+" KIND(d[88]), "+" KIND(d[89]), "+" KIND(d[90]), "+" KIND(d[91])
#define AUTOSCHED_D192(KIND) AUTOSCHED_D184(KIND), "+" KIND(d[92]), "+" KIND(d[93]), "+" KIND(d[94]), "+" KIND(d[95])
#define AUTOSCHED_D200(KIND) AUTOSCHED_D192(KIND), "+" KIND(d[96]), "+" KIND(d[97]), "+" KIND(d[98]), "+" KIND(d[99])
#define AUTOSCHED_D208(KIND) AUTOSCHED_D200(KIND), "+" KIND(d[100]), "+" KIND(d[101]), "+" KIND(d[102]), "+" KIND(d[103])
#define AUTOSCHED_D216(KIND) AUTOSCHED_D208(KIND), "+" KIND(d[104]), "+" KIND(d[105]), "+" KIND(d[106]), "+" KIND(d[107])
#define AUTOSCHED_D224(KIND) AUTOSCHED_D216(KIND), "+" KIND(d[108]), "+" KIND(d[109]), "+" KIND(d[110]), "+" KIND(d[111])
#define AUTOSCHED_D232(KIND) AUTOSCHED_D224(KIND), "+" KIND(d[112]), "+" KIND(d[113]), "+" KIND(d[114]), "+" KIND(d[115])
#define AUTOSCHED_D240(KIND) AUTOSCHED_D232(KIND), "+" KIND(d[116]), "+" KIND(d[117]), "+" KIND(d[118]), "+" KIND(d[119])
#define AUTOSCHED_D248(KIND) AUTOSCHED_D240(KIND), "+" KIND(d[120]), "+" KIND(d[121]), "+" KIND(d[122]), "+" KIND(d[123])
#define AUTOSCHED_D256(KIND) AUTOSCHED_D248(KIND), "+" KIND(d[124]), "+" KIND(d[125]), "+" KIND(d[126]), "+" KIND(d[127])

// EACH(n, ...) has three other arguments, which are lists of asm operands:
// - the descriptors and the predicate
// - the source of the predicate
// - two further operands
// The first macro lists each n that all types support. The second lists each n that integer types do not support (PTX
// ISA 9.7.15.2, "Shape").
#define AUTOSCHED_WGMMA_EVERY_TYPE(EACH)           \
  EACH(8, "%4, %5, p", "%6", "%7, %8")             \
  EACH(16, "%8, %9, p", "%10", "%11, %12")         \
  EACH(24, "%12, %13, p", "%14", "%15, %16")       \
  EACH(32, "%16, %17, p", "%18", "%19, %20")       \
  EACH(48, "%24, %25, p", "%26", "%27, %28")       \
  EACH(64, "%32, %33, p", "%34", "%35, %36")       \
  EACH(80, "%40, %41, p", "%42", "%43, %44")       \
  EACH(96, "%48, %49, p", "%50", "%51, %52")       \
  EACH(112, "%56, %57, p", "%58", "%59, %60")      \
  EACH(128, "%64, %65, p", "%66", "%67, %68")      \
  EACH(144, "%72, %73, p", "%74", "%75, %76")      \
  EACH(160, "%80, %81, p", "%82", "%83, %84")      \
  EACH(176, "%88, %89, p", "%90", "%91, %92")      \
  EACH(192, "%96, %97, p", "%98", "%99, %100")     \
  EACH(208, "%104, %105, p", "%106", "%107, %108") \
  EACH(224, "%112, %113, p", "%114", "%115, %116") \
  EACH(240, "%120, %121, p", "%122", "%123, %124") \
  EACH(256, "%128, %129, p", "%130", "%131, %132")
#define AUTOSCHED_WGMMA_FLOATS_ALONE(EACH)         \
  EACH(40, "%20, %21, p", "%22", "%23, %24")       \
  EACH(56, "%28, %29, p", "%30", "%31, %32")       \
  EACH(72, "%36, %37, p", "%38", "%39, %40")       \
  EACH(88, "%44, %45, p", "%46", "%47, %48")       \
  EACH(104, "%52, %53, p", "%54", "%55, %56")      \
  EACH(120, "%60, %61, p", "%62", "%63, %64")      \
  EACH(136, "%68, %69, p", "%70", "%71, %72")      \
  EACH(152, "%76, %77, p", "%78", "%79, %80")      \
  EACH(168, "%84, %85, p", "%86", "%87, %88")      \
  EACH(184, "%92, %93, p", "%94", "%95, %96")      \
  EACH(200, "%100, %101, p", "%102", "%103, %104") \
  EACH(216, "%108, %109, p", "%110", "%111, %112") \
  EACH(232, "%116, %117, p", "%118", "%119, %120") \
  EACH(248, "%124, %125, p", "%126", "%127, %128")
// clang-format on
