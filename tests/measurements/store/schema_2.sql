PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO meta VALUES('application','autosched');
INSERT INTO meta VALUES('schema_version','2');
CREATE TABLE trials (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	family TEXT NOT NULL, 
	problem TEXT NOT NULL, 
	device TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	space_version TEXT NOT NULL, 
	kernel_digest TEXT, 
	schedule TEXT NOT NULL, 
	schedule_key TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	median FLOAT, 
	p25 FLOAT, 
	p75 FLOAT, 
	repeats INTEGER, 
	error FLOAT, 
	registers INTEGER, 
	spill_store_bytes INTEGER, 
	spill_load_bytes INTEGER, 
	stack_bytes INTEGER, 
	static_shared_bytes INTEGER, 
	dynamic_shared_bytes INTEGER, 
	compile_seconds FLOAT, 
	clock_mhz FLOAT, 
	toolchain TEXT NOT NULL, 
	driver TEXT NOT NULL, 
	autosched_version TEXT NOT NULL, 
	created TEXT NOT NULL, 
	sampler TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	final_rank INTEGER, 
	CONSTRAINT time_exactly_when_ok CHECK ((status = 'ok') = (median IS NOT NULL)), 
	CONSTRAINT time_is_positive CHECK (median > 0 AND p25 > 0 AND p75 > 0), 
	CONSTRAINT time_is_whole CHECK ((p25 IS NULL) = (median IS NULL) AND (p75 IS NULL) = (median IS NULL) AND (repeats IS NULL) = (median IS NULL))
);
INSERT INTO trials VALUES(1,'softmax','{"columns":256,"dtype":"f16","family":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','fa06294c2c675a9a501de5be32c5d8163438f10a4661ff832d5b4b3cbe2d99cf','a4c09b92afe5a008c6aaed54eb9923ea01ff282b9a08ff4c5023079df9119d8c','{"lanes":32,"subgroups":1,"kept_subgroups":1,"batch":1,"vector":8,"peel":"no","unroll":1,"split":1,"finish":"last_block","keep":"registers","passes":"one","x_cache":"no_allocate","out_cache":"streaming","min_blocks":6}','{"batch":1,"finish":"last_block","keep":"registers","kept_subgroups":1,"lanes":32,"min_blocks":6,"out_cache":"streaming","passes":"one","peel":"no","split":1,"subgroups":1,"unroll":1,"vector":8,"x_cache":"no_allocate"}','estimated','ok','',2.6235979259259257596e-06,2.6235979259259257596e-06,2.6235979259259257596e-06,0,0.93379203222817230845,28,0,0,0,0,0,0.21522110700016128248,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-21T22:13:30.155208+00:00','evolution',0,NULL);
INSERT INTO trials VALUES(2,'softmax','{"columns":256,"dtype":"f16","family":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','fa06294c2c675a9a501de5be32c5d8163438f10a4661ff832d5b4b3cbe2d99cf','91fdd85e0373040c8b1b8ff08ce046ac24b35a234144d32d5da07ead0b517569','{"lanes":32,"subgroups":1,"kept_subgroups":1,"batch":1,"vector":4,"peel":"no","unroll":1,"split":1,"finish":"last_block","keep":"registers","passes":"one","x_cache":"evict_first","out_cache":"none","min_blocks":8}','{"batch":1,"finish":"last_block","keep":"registers","kept_subgroups":1,"lanes":32,"min_blocks":8,"out_cache":"none","passes":"one","peel":"no","split":1,"subgroups":1,"unroll":1,"vector":4,"x_cache":"evict_first"}','estimated','ok','',2.6246080269360268155e-06,2.6246080269360268155e-06,2.6246080269360268155e-06,0,NULL,26,0,0,0,0,0,0.30787362099999882047,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-21T22:13:30.187332+00:00','evolution',0,NULL);
INSERT INTO trials VALUES(6,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","family":"matmul","k":64,"m":64,"n":64,"order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','244e371817789ecd04b2787d807e27806972152be4f0ec74ea9859b838bb18f1','de3da10c3c4d70061d9feb5401cbea7183e30f5a8811c9c903d50928036bcf5f','{"tile_m":16,"tile_n":16,"tile_k":16,"intrinsic":"fma_m8n4k1","sg_layout_m":1,"sg_layout_n":1,"sg_data_m":8,"sg_data_n":8,"layout_a":"swizzle(1,3,3)","layout_b":"pad(4,4)","copy_a":"cp.async","copy_b":"cp.async","vector_a":2,"vector_b":2,"copy_columns_a":8,"copy_columns_b":8,"stages":1,"k_unroll":8,"epilogue":"registers","min_blocks":1,"split_k":4,"raster":"column","batch_mapping":"outer"}','{"batch_mapping":"outer","copy_a":"cp.async","copy_b":"cp.async","copy_columns_a":8,"copy_columns_b":8,"epilogue":"registers","intrinsic":"fma_m8n4k1","k_unroll":8,"layout_a":"swizzle(1,3,3)","layout_b":"pad(4,4)","min_blocks":1,"raster":"column","sg_data_m":8,"sg_data_n":8,"sg_layout_m":1,"sg_layout_n":1,"split_k":4,"stages":1,"tile_k":16,"tile_m":16,"tile_n":16,"vector_a":2,"vector_b":2}','estimated','ok','',2.7884248110737000841e-06,2.7884248110737000841e-06,2.7884248110737000841e-06,0,0.92869960004373142137,80,0,0,0,0,1152,0.77498359300034280749,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-21T22:13:41.584279+00:00','evolution',0,NULL);
INSERT INTO trials VALUES(7,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","family":"matmul","k":64,"m":64,"n":64,"order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','244e371817789ecd04b2787d807e27806972152be4f0ec74ea9859b838bb18f1','a1dd76119e18fc0c83a91c2534c93b4f51263c155769c5f55bfdd260b9f57497','{"tile_m":16,"tile_n":16,"tile_k":16,"intrinsic":"fma_m8n4k1","sg_layout_m":1,"sg_layout_n":1,"sg_data_m":16,"sg_data_n":16,"layout_a":"swizzle(1,3,3)","layout_b":"pad(4,4)","copy_a":"cp.async","copy_b":"ld.global","vector_a":2,"vector_b":2,"copy_columns_a":8,"copy_columns_b":8,"stages":1,"k_unroll":8,"epilogue":"registers","min_blocks":2,"split_k":4,"raster":"column","batch_mapping":"outer"}','{"batch_mapping":"outer","copy_a":"cp.async","copy_b":"ld.global","copy_columns_a":8,"copy_columns_b":8,"epilogue":"registers","intrinsic":"fma_m8n4k1","k_unroll":8,"layout_a":"swizzle(1,3,3)","layout_b":"pad(4,4)","min_blocks":2,"raster":"column","sg_data_m":16,"sg_data_n":16,"sg_layout_m":1,"sg_layout_n":1,"split_k":4,"stages":1,"tile_k":16,"tile_m":16,"tile_n":16,"vector_a":2,"vector_b":2}','estimated','ok','',2.7887615114104002951e-06,2.7887615114104002951e-06,2.7887615114104002951e-06,0,NULL,76,0,0,0,0,1152,0.84459243000037531601,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-21T22:13:41.631284+00:00','evolution',0,NULL);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('trials',9);
CREATE INDEX trials_by_problem ON trials (problem, device, provenance, status);
COMMIT;
