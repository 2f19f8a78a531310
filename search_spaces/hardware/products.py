"""GPU products as data rows with values from data sheets, and rates of an SM by architecture.

GeForce products have their own rates. A new product is one more row. Comments above the rows name the sources. Names
are from the supported-GPU table of NVIDIA's open kernel modules (595.45.04) and, for Jetson, from deviceQuery listings.
Rows list their unconfirmed values.
"""

from __future__ import annotations

from typing import NamedTuple

# memory_mib is the memory that nvidia-smi lists with the product's default ECC setting. In data sheets, GB means GiB:
# an H200 of "141 GB" has 143771 MiB (150.8e9 bytes). This is slightly less than 141 GiB, because firmware reserves a
# small part. With GDDR6 (A10, L4, L40S), ECC takes another sixteenth.

# l2_gb_s is an estimate of the sustained read bandwidth of L2, which NVIDIA does not publish:
# - A100: 5.5 TB/s (36 bytes per cycle and SM), which fits recorded matmuls best (AutoHeuristic, a100_mm). Published
#   measurements are 4.2 TB/s (Nsight, 40 GB model) to 5.6 TB/s (A800), in the RRZE gpu-benches issues 13 and 7.
# - H100 SXM: the limit is the port of an SM, 64 bytes per cycle. Recordings show no other limit: the Triton matmul of
#   1152x2048x10112 with tiles of 64x128 moves at least 12.1 TB/s (AutoHeuristic, h100_mm, 98 us).
# - The PCIe card, and compute capabilities 10.x and 11.0: the same limit is assumed.
# - Smaller chips: 16 bytes per cycle and SM are assumed.


class Rates(NamedTuple):
    """Dense operations per cycle and SM (an FMA counts as two); 0 for types that tensor cores do not multiply.

    Attributes:
        f16: Rate with f32 accumulation.
        f16_f16: Rate of f16 with f16 accumulation, if it differs.
        mma_sync: Fraction of these rates that mma.sync reaches.
        l2_bytes: Bytes per cycle that an SM reads from L2.
    """

    fma: float
    f16: float
    i8: float
    fp8: float = 0.0
    f16_f16: float = 0.0
    mxf8: float = 0.0
    fp4: float = 0.0
    bf16: bool = True  # True if bf16 has the rate of f16, and tf32 half of this rate
    mma_sync: float = 1.0
    l2_bytes: float = 16.0

    @property
    def by_type(self) -> tuple[tuple[str, float], ...]:
        """Rates in the format of ``Device.tensor_flops_per_cycle``."""
        wide = (("bf16", self.f16), ("tf32", self.f16 / 2)) if self.bf16 else ()
        fp8 = (("e4m3", self.fp8), ("e5m2", self.fp8)) if self.fp8 else ()
        f16_f16 = (("f16_f16", self.f16_f16),) if self.f16_f16 else ()
        scaled = (("mxf8", self.mxf8), ("mxf4", self.fp4), ("nvf4", self.fp4)) if self.mxf8 else ()
        return ("f16", self.f16), *wide, ("i8", self.i8), *fp8, *f16_f16, *scaled


# mma.sync compared with wider instructions:
# - Hopper: mma.sync reaches on average 62.9% of the peak of wgmma (arXiv 2402.13499, tensor core section). Published
#   mma.sync matmuls reach at most about 65% (arXiv 2501.12084).
# - 10.x and 11.0: about a quarter of the peak is assumed. On a B200, a matmul of 4096 cubed reaches 409 TFLOP/s by
#   mma.sync, and 1326 TFLOP/s by tcgen05 (gau-nernst/learn-cuda 02e).
# - sm_75 to sm_89 and 12.x have no wider instruction.
#
# A GeForce card that accumulates in f32 has half of its chip's rate. It has the full rate if it accumulates in f16 or,
# for i8, in i32. All other cards have the same rate with f32 and f16 accumulators (white papers, tables of peaks).
#
# Rates of 10.0, 10.3 and GeForce 12.0 are derived from cycles that other projects measured (microbench-blackwell,
# gb300-microbench). On 10.3, fp4 has K = 96.
RATES: dict[int, Rates] = {
    75: Rates(128, 1024, 2048, bf16=False),
    80: Rates(128, 2048, 4096, l2_bytes=36),
    86: Rates(256, 1024, 2048),
    87: Rates(256, 2048, 4096, l2_bytes=32),
    89: Rates(256, 1024, 2048, 2048),
    90: Rates(256, 4096, 8192, 8192, mma_sync=0.63, l2_bytes=63),
    100: Rates(256, 8192, 16384, 16384, mxf8=16384, fp4=32768, mma_sync=0.25, l2_bytes=63),
    103: Rates(256, 8192, 512, 16384, mxf8=16384, fp4=49152, mma_sync=0.25, l2_bytes=63),
    110: Rates(256, 8192, 16384, 16384, mxf8=16384, fp4=32768, mma_sync=0.25, l2_bytes=63),
    120: Rates(256, 1024, 2048, 2048, mxf8=2048, fp4=4096),
    121: Rates(256, 1024, 2048, 2048, mxf8=2048, fp4=4096),
}
GEFORCE_RATES: dict[int, Rates] = {
    75: Rates(128, 512, 2048, f16_f16=1024, bf16=False),
    86: Rates(256, 512, 2048, f16_f16=1024),
    89: Rates(256, 512, 2048, 1024, 1024),
    120: Rates(256, 512, 2048, 1024, 1024, mxf8=2048, fp4=4096),
}
_L20 = Rates(256, 512, 1024, 1024)  # 119.5 and 239 TFLOP/s (data sheet)
_H20 = Rates(256, 1024, 2048, 2048, mma_sync=1.0, l2_bytes=63)  # 148 TFLOP/s, which mma.sync can reach


def rates_of(sm: int, geforce: bool) -> Rates:
    """Return the rates of an SM. Raises KeyError if the compute capability ``sm`` has no row."""
    return GEFORCE_RATES.get(sm, RATES[sm]) if geforce else RATES[sm]


# Substrings of product names. These products have the rates of GeForce products, but no "GeForce" in their names.
_GEFORCE_RATES = ("A10G", "CMP ")


def has_geforce_rates(driver_name: str) -> bool:
    """Return True if a GPU with this name accumulates in f32 at half the rate, like GeForce products."""
    return "GeForce" in driver_name or any(word in driver_name for word in _GEFORCE_RATES)


class GpuProduct(NamedTuple):
    """One GPU product.

    Attributes:
        mhz: Boost clock in MHz.
        gb_s: Memory bandwidth in 1e9 bytes per second.
        driver_names: Names in the driver. Products with a different number of SMs or memory size may have the same
            names.
        tensor_mhz: Clock in MHz of the data sheet's tensor peaks, if it differs from ``mhz``.
        unconfirmed: Values that no source confirms.
    """

    name: str
    sm: int
    sms: int
    mhz: float
    l2_mib: float
    memory_mib: float
    gb_s: float
    driver_names: tuple[str, ...] = ()
    geforce: bool = False
    tensor_mhz: float = 0.0
    rates: Rates | None = None
    l2_gb_s: float = 0.0
    unconfirmed: str = ""
    sustained_mhz: float = 0.0  # see Device.sustained_clock_hz
    sms_of_gpcs: tuple[int, ...] = ()  # see Device.sms_of_gpcs


# SMs per GPC of a GH100 with 132 SMs. Chips differ, so the numbers were chosen to agree with two observations. Times on
# an H100 imply that 30 or 31 clusters of 4 blocks run at the same time (2026-11-27). 15 clusters of 8 blocks run on the
# H100s of accel-sim/gpu-app-collection#87 and NVIDIA/cutlass#1921. The same numbers are assumed for H200, which has the
# same chip and the same number of SMs.
_GPCS_OF_132 = (18, 18, 18, 16, 16, 16, 16, 14)


def _geforce(name: str, sm: int, sms: int, mhz: float, l2_mib: float, memory_mib: float, gb_s: float, product: str,
             l2_gb_s: float = 0.0, sustained_mhz: float = 0.0) -> GpuProduct:  # fmt: skip
    """Return a GeForce product. Drivers before 470 omit "NVIDIA" in the name."""
    names = (f"NVIDIA GeForce {product}", *((f"GeForce {product}",) if sm <= 86 else ()))
    return GpuProduct(
        name, sm, sms, mhz, l2_mib, memory_mib, gb_s, names, geforce=True, l2_gb_s=l2_gb_s, sustained_mhz=sustained_mhz
    )


PRODUCTS: tuple[GpuProduct, ...] = (
    # NVIDIA H200 data sheet (SXM): 141 GB, 4.8 TB/s, 989 TFLOP/s for dense f16, 1979 for dense fp8 and i8, 67 for f32;
    # H100 white paper for the SM and the clocks (1980 MHz, tensor peaks at 1830 MHz). The full 60 MB of L2 are enabled.
    # The sustained clock is not measured. It was chosen so that the estimate of our best schedule equals what the best
    # public kernel reaches on an H100 (fast.cu, bf16: 763 and 808 TFLOP/s at 4096 and 8192 cubed; cuBLAS 716 and 795).
    GpuProduct("h200", 90, 132, 1980, 60, 143771, 4800, ("NVIDIA H200",), tensor_mhz=1830, l2_gb_s=16500,
            sustained_mhz=1635, sms_of_gpcs=_GPCS_OF_132),
    # H100 white paper (SXM5, 80 GB): 132 SMs, 50 MB of L2, 3.35 TB/s, 989.4 TFLOP/s for dense f16, 1978.9 for dense fp8
    # and i8, 66.9 for f32.
    GpuProduct("h100", 90, 132, 1980, 50, 81559, 3350, ("NVIDIA H100 80GB HBM3",), tensor_mhz=1830, l2_gb_s=16500,
            sustained_mhz=1690, sms_of_gpcs=_GPCS_OF_132),
    # H100 white paper (PCIe, 80 GB): 114 SMs, 1755 MHz (tensor peaks at 1620 MHz), 2.04 TB/s, 756 TFLOP/s for dense
    # f16, 1513 for dense fp8 and i8.
    GpuProduct("h100_pcie", 90, 114, 1755, 50, 81559, 2039, ("NVIDIA H100 PCIe",), tensor_mhz=1620, l2_gb_s=12700),
    # A100 80GB data sheet (SXM4): 2039 GB/s, 312 TFLOP/s f16, 624 TOP/s i8, 19.5 TFLOP/s f32; A100 white paper: 108 SMs
    # of 64 f32 lanes, 1410 MHz, 40 MB of L2.
    GpuProduct("a100", 80, 108, 1410, 40, 81920, 2039, ("NVIDIA A100-SXM4-80GB",), l2_gb_s=5500),
    # A10 data sheet: 24 GB, 600 GB/s, 125 TFLOP/s f16 dense, 250 TOP/s i8, 31.2 TFLOP/s f32; GA102 white
    # paper: 6 MB of L2, 72 SMs.
    GpuProduct("a10", 86, 72, 1695, 6, 23028, 600, ("NVIDIA A10",), l2_gb_s=1950),
    # GA102 white paper: 24 GB, 82 SMs, 1695 MHz, 936 GB/s, 71 TFLOP/s f16 with f32 accumulation, 142 with f16, 284
    # TOP/s i8, 35.6 TFLOP/s f32.
    _geforce("rtx3090", 86, 82, 1695, 6, 24576, 936.2, "RTX 3090", l2_gb_s=2200),
    # Ada white paper: 24 GB, 128 SMs, 2520 MHz, 72 MB of L2, 1008 GB/s, 165.2 TFLOP/s f16 with f32 accumulation,
    # 330.3 TFLOP/s f16 with f16 accumulation, 330.3 TFLOP/s fp8 with f32 accumulation, 660.6 TOP/s i8, 82.6 TFLOP/s
    # f32.
    _geforce("rtx4090", 89, 128, 2520, 72, 24564, 1008, "RTX 4090", l2_gb_s=5100),
    # L4 data sheet: 24 GB, 300 GB/s, 121 TFLOP/s for dense f16 (242 sparse), 242 for dense fp8 and i8, 30.3 for f32;
    # AD104: 58 SMs, 48 MB of L2.
    GpuProduct("l4", 89, 58, 2040, 48, 23034, 300, ("NVIDIA L4",), l2_gb_s=1900),
    # L40S data sheet: 48 GB, 864 GB/s, 362 TFLOP/s for dense f16 (733 sparse), 733 for dense fp8 and i8, 91.6 for f32;
    # AD102: 142 SMs, 96 MB of L2.
    GpuProduct("l40s", 89, 142, 2520, 96, 46068, 864, ("NVIDIA L40S",), l2_gb_s=5700),
    # Turing white paper; T4 and Quadro RTX data sheets.
    GpuProduct("t4", 75, 40, 1590, 4, 15360, 320, ("Tesla T4",), unconfirmed="memory"),
    _geforce("rtx2060", 75, 30, 1680, 3, 6144, 336, "RTX 2060"),
    _geforce("rtx2070", 75, 36, 1620, 4, 8192, 448, "RTX 2070"),
    _geforce("rtx2080", 75, 46, 1710, 4, 8192, 448, "RTX 2080"),
    _geforce("rtx2080ti", 75, 68, 1545, 5.5, 11264, 616, "RTX 2080 Ti"),
    GpuProduct("titan_rtx", 75, 72, 1770, 6, 24576, 672, ("NVIDIA TITAN RTX", "TITAN RTX")),
    GpuProduct("quadro_rtx6000", 75, 72, 1770, 6, 24576, 672, ("Quadro RTX 6000",)),
    GpuProduct("quadro_rtx8000", 75, 72, 1770, 6, 49152, 672, ("Quadro RTX 8000",)),
    # A100 white paper, A30, A100 and A800 data sheets.
    GpuProduct("a30", 80, 56, 1440, 24, 24576, 933, ("NVIDIA A30",)),
    GpuProduct("a100_40gb", 80, 108, 1410, 40, 40960, 1555, ("NVIDIA A100-SXM4-40GB",)),
    GpuProduct("a100_40gb_pcie", 80, 108, 1410, 40, 40960, 1555, ("NVIDIA A100-PCIE-40GB",)),
    GpuProduct("a100_pcie", 80, 108, 1410, 40, 81920, 1935, ("NVIDIA A100 80GB PCIe",)),
    GpuProduct("a800_sxm", 80, 108, 1410, 40, 81920, 2039, ("NVIDIA A800-SXM4-80GB",)),
    GpuProduct("a800_pcie", 80, 108, 1410, 40, 81920, 1935, ("NVIDIA A800 80GB PCIe",)),
    # GA102 white paper; A2, A16, A40 and RTX A data sheets.
    GpuProduct("a2", 86, 10, 1770, 2, 15356, 200, ("NVIDIA A2",)),
    GpuProduct("a16", 86, 10, 1695, 2, 15356, 200, ("NVIDIA A16",), unconfirmed="clock"),
    GpuProduct("a10g", 86, 80, 1710, 6, 23028, 600, ("NVIDIA A10G",), geforce=True, unconfirmed="clock"),
    GpuProduct("a40", 86, 84, 1740, 6, 46068, 696, ("NVIDIA A40",)),
    GpuProduct("a4000", 86, 48, 1560, 4, 16376, 448, ("NVIDIA RTX A4000",)),
    GpuProduct("a5000", 86, 64, 1695, 6, 24564, 768, ("NVIDIA RTX A5000",)),
    GpuProduct("a6000", 86, 84, 1800, 6, 49140, 768, ("NVIDIA RTX A6000",)),
    _geforce("rtx3060", 86, 28, 1777, 3, 12288, 360, "RTX 3060"),
    _geforce("rtx3060ti", 86, 38, 1665, 4, 8192, 448, "RTX 3060 Ti"),
    _geforce("rtx3070", 86, 46, 1725, 4, 8192, 448, "RTX 3070"),
    _geforce("rtx3080", 86, 68, 1710, 5, 10240, 760, "RTX 3080"),
    _geforce("rtx3080ti", 86, 80, 1665, 6, 12288, 912, "RTX 3080 Ti"),
    _geforce("rtx3090ti", 86, 84, 1860, 6, 24564, 1008, "RTX 3090 Ti"),
    # Jetson Orin data sheets; clocks are for the highest power mode. The driver reports the name "Orin" for all of
    # them.
    GpuProduct("agx_orin_64", 87, 16, 1300, 4, 62841, 204.8, ("Orin",)),
    GpuProduct("agx_orin_32", 87, 14, 930, 4, 30697, 204.8, ("Orin",)),
    GpuProduct("orin_nx_16", 87, 8, 918, 2, 15388, 102.4, ("Orin",)),
    GpuProduct("orin_nano_8_super", 87, 8, 1020, 2, 7620, 102.4, ("Orin",)),
    # Ada white paper; L20, L40 and RTX Ada data sheets.
    GpuProduct("l20", 89, 92, 2520, 96, 46068, 864, ("NVIDIA L20",), rates=_L20, unconfirmed="rates"),
    GpuProduct("l40", 89, 142, 2490, 96, 46068, 864, ("NVIDIA L40",)),
    _geforce("rtx4060", 89, 24, 2460, 24, 8188, 272, "RTX 4060"),
    _geforce("rtx4060ti", 89, 34, 2535, 32, 16380, 288, "RTX 4060 Ti"),
    _geforce("rtx4070", 89, 46, 2475, 36, 12282, 504, "RTX 4070"),
    _geforce("rtx4070super", 89, 56, 2475, 48, 12282, 504, "RTX 4070 SUPER"),
    _geforce("rtx4070ti", 89, 60, 2610, 48, 12282, 504, "RTX 4070 Ti"),
    _geforce("rtx4070tisuper", 89, 66, 2610, 48, 16376, 672, "RTX 4070 Ti SUPER"),
    _geforce("rtx4080", 89, 76, 2505, 64, 16376, 717, "RTX 4080"),
    _geforce("rtx4080super", 89, 80, 2550, 64, 16376, 736, "RTX 4080 SUPER"),
    _geforce("rtx4090d", 89, 114, 2520, 72, 24564, 1008, "RTX 4090 D"),
    GpuProduct("rtx4000ada", 89, 48, 2175, 48, 20475, 360, ("NVIDIA RTX 4000 Ada Generation",)),
    GpuProduct("rtx5000ada", 89, 100, 2550, 72, 32760, 576, ("NVIDIA RTX 5000 Ada Generation",)),
    GpuProduct("rtx6000ada", 89, 142, 2505, 96, 49140, 960, ("NVIDIA RTX 6000 Ada Generation",)),
    # H100 white paper, H100 NVL and H200 NVL data sheets. Tensor clocks are computed from the published f16 peaks.
    GpuProduct("h100_nvl", 90, 132, 1785, 50, 95830, 3938, ("NVIDIA H100 NVL",), tensor_mhz=1544),
    GpuProduct("h800", 90, 132, 1755, 50, 81559, 3350, ("NVIDIA H800",), unconfirmed="clock"),
    GpuProduct("h20", 90, 78, 1980, 60, 97871, 4000, ("NVIDIA H20",), tensor_mhz=1853, rates=_H20, unconfirmed="rates"),
    GpuProduct("h20_3e", 90, 78, 1980, 60, 143771, 4800,
            ("NVIDIA H20-3e",), tensor_mhz=1853, rates=_H20, unconfirmed="rates"),
    GpuProduct("h200_nvl", 90, 132, 1785, 60, 143771, 4800, ("NVIDIA H200 NVL",), tensor_mhz=1544),
    GpuProduct("gh200_96", 90, 132, 1980, 60, 97871, 4000, ("NVIDIA GH200 480GB",), tensor_mhz=1830),
    GpuProduct("gh200_144", 90, 132, 1980, 60, 146831, 4900,
            ("NVIDIA GH200 144G HBM3e",), tensor_mhz=1830, unconfirmed="memory"),
    # B200 and GB200 data sheets; SMs, clock, L2 and memory of B200 from listings of deviceQuery and nvidia-smi.
    # The HGX and DGX sheets state 7.7 and 8 TB/s for the same card. Tensor clocks are computed from the published
    # f16 peaks.
    GpuProduct("b100", 100, 148, 1965, 126.5, 183359, 8000, (), tensor_mhz=1444, unconfirmed="all figures"),
    # The sustained clock is not measured. It was chosen so that the estimate of our best schedule equals what the best
    # public kernels reach, in bf16 TFLOP/s: ThunderKittens 1540 at 4096 cubed; cuBLAS 1532 at 4096 cubed, 1652 at
    # 4096 x 8192 x 8192, and 1610 at 8192 cubed (pyptx.dev/performance). Other sources report 1359 and 1414.
    GpuProduct("b200", 100, 148, 1965, 126.5, 183359, 7700, ("NVIDIA B200",), tensor_mhz=1856, sustained_mhz=1490),
    GpuProduct("gb200", 100, 152, 2062, 126.5, 189471, 8000,
            ("NVIDIA GB200",), tensor_mhz=2008, unconfirmed="L2, memory"),
    # B300 and GB300 data sheets; SMs, clock and memory of B300 from listings. i8 has no tcgen05.mma.
    GpuProduct("b300", 103, 148, 2032, 126.5, 275040, 7700,
            ("NVIDIA B300 SXM6 AC",), tensor_mhz=1856, unconfirmed="L2"),
    GpuProduct("gb300", 103, 152, 2062, 126.5, 284208, 8000,
            ("NVIDIA GB300",), tensor_mhz=2008, unconfirmed="SMs, clock, memory"),
    # Jetson Thor data sheet, deviceQuery listings. The driver reports the name "NVIDIA Thor" for both products.
    GpuProduct("jetson_thor", 110, 20, 1575, 32, 125772, 273, ("NVIDIA Thor",)),
    GpuProduct("jetson_t4000", 110, 12, 1575, 32, 65536, 273, ("NVIDIA Thor",), unconfirmed="memory"),
    # RTX Blackwell and RTX PRO Blackwell white papers and data sheets. RTX 5090 and RTX PRO 6000: published listings.
    _geforce("rtx5050", 120, 20, 2572, 24, 8151, 320, "RTX 5050"),
    _geforce("rtx5060", 120, 30, 2497, 32, 8151, 448, "RTX 5060"),
    _geforce("rtx5060ti", 120, 36, 2572, 32, 16311, 448, "RTX 5060 Ti"),
    _geforce("rtx5070", 120, 48, 2512, 48, 12227, 672, "RTX 5070"),
    _geforce("rtx5070ti", 120, 70, 2452, 48, 16303, 896, "RTX 5070 Ti"),
    _geforce("rtx5080", 120, 84, 2617, 64, 16303, 960, "RTX 5080"),
    # The sustained clock is not measured. It was chosen so that the estimate of our best schedule equals what a similar
    # kernel reaches (gau-nernst/learn-cuda, cp.async and mma.sync at 400 W, bf16: 192 TFLOP/s).
    _geforce("rtx5090", 120, 170, 2407, 96, 32607, 1792, "RTX 5090", sustained_mhz=2290),
    GpuProduct("rtx_pro_4000", 120, 70, 2055, 48, 24467, 672, ("NVIDIA RTX PRO 4000 Blackwell",), unconfirmed="memory"),
    GpuProduct("rtx_pro_4500", 120, 82, 2407, 64, 32623, 896, ("NVIDIA RTX PRO 4500 Blackwell",), unconfirmed="memory"),
    GpuProduct("rtx_pro_5000", 120, 110, 2377, 96, 48935, 1344,
            ("NVIDIA RTX PRO 5000 Blackwell",), unconfirmed="memory"),
    GpuProduct("rtx_pro_6000", 120, 188, 2617, 128, 97887, 1792,
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",)),
    GpuProduct("rtx_pro_6000_maxq", 120, 188, 2280, 128, 97887, 1792,
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",)),
    GpuProduct("rtx_pro_6000_se", 120, 188, 2617, 128, 97887, 1597,
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition",), unconfirmed="clock, bandwidth"),
    # DGX Spark data sheet, deviceQuery listings; memory is shared with the CPU.
    GpuProduct("gb10", 121, 48, 2418, 24, 122570, 273, ("NVIDIA GB10",), unconfirmed="rates"),
)  # fmt: skip

# Other common names of products.
ALIASES = {
    "rtx_a4000": "a4000", "rtx_a5000": "a5000", "rtx_a6000": "a6000", "a100_80gb": "a100",
    "a100_80gb_pcie": "a100_pcie",
    "h100_sxm": "h100", "h200_sxm": "h200", "rtx_pro_6000_ws": "rtx_pro_6000", "rtx6000_ada": "rtx6000ada",
    "rtx5000_ada": "rtx5000ada", "rtx4000_ada": "rtx4000ada", "dgx_spark": "gb10", "thor": "jetson_thor",
    "orin": "agx_orin_64", "h20_141gb": "h20_3e", "gh200": "gh200_96",
}  # fmt: skip
