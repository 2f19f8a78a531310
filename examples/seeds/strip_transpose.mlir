// A transpose by eight warps: the map of the result decides which strip of the source each of them reads.
#strips = #xetile.wg_map<sg_layout = [2, 4], sg_data = [16, 32]>
%turned = xetile.transpose %values {#strips} : vector<128x32xfloat> into vector<32x128xfloat>
