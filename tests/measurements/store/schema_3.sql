BEGIN TRANSACTION;
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('application','autosched');
INSERT INTO "meta" VALUES('schema_version','3');
CREATE TABLE trials (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	operator TEXT NOT NULL, 
	problem TEXT NOT NULL, 
	device TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	template TEXT NOT NULL, 
	template_version TEXT NOT NULL, 
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
INSERT INTO "trials" VALUES(1,'softmax','{"columns":256,"dtype":"f16","operator":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','row_reduction','47669c6628c4c6d2a563f55869723a86a55f8f4adb9a9dda8462f117db406344','5f4bdbd329e030b96333301b1486b3caad57f4df0af9b12419d4ebcda3a8889d','e16aebda67fa4f0103bfcfb6fffad29dfd916861a8edc232b2c1cd5b35e0f14b','{"lanes":8,"subgroups":2,"parallel_subgroups":1,"batch":1,"vector":1,"peel":"no","unroll":8,"split":1,"finish":"last_block","row_staging":"reload","passes":"one","x_cache":"evict_first","out_cache":"streaming","min_blocks":8}','["row_reduction",{"batch":1,"finish":"last_block","lanes":8,"min_blocks":8,"out_cache":"streaming","parallel_subgroups":1,"passes":"one","peel":"no","row_staging":"reload","split":1,"subgroups":2,"unroll":8,"vector":1,"x_cache":"evict_first"}]','estimated','ok','',3.5042948148148148717e-06,3.5042948148148148717e-06,3.5042948148148148717e-06,0,9.3379203222817230845e-01,48,0,0,0,0,128,3.23790970000118250027e-01,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T00:57:02.891728+00:00','evolution',0,NULL);
INSERT INTO "trials" VALUES(2,'softmax','{"columns":256,"dtype":"f16","operator":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','row_reduction','47669c6628c4c6d2a563f55869723a86a55f8f4adb9a9dda8462f117db406344','5f4bdbd329e030b96333301b1486b3caad57f4df0af9b12419d4ebcda3a8889d','58db28f48dfac90d4a8946f64a594fca472424e23cf87f78f30f6ca82efc4f21','{"lanes":32,"subgroups":1,"parallel_subgroups":1,"batch":1,"vector":8,"peel":"no","unroll":1,"split":1,"finish":"last_block","row_staging":"registers","passes":"one","x_cache":"none","out_cache":"none","min_blocks":8}','["row_reduction",{"batch":1,"finish":"last_block","lanes":32,"min_blocks":8,"out_cache":"none","parallel_subgroups":1,"passes":"one","peel":"no","row_staging":"registers","split":1,"subgroups":1,"unroll":1,"vector":8,"x_cache":"none"}]','estimated','ok','',2.62359792592592575965e-06,2.62359792592592575965e-06,2.62359792592592575965e-06,0,9.3379203222817230845e-01,28,0,0,0,0,0,3.72714447999896947294e-01,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T00:57:03.379687+00:00','evolution',0,NULL);
INSERT INTO "trials" VALUES(3,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","k":64,"m":64,"n":64,"operator":"matmul","order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','matmul','d62612fee607b4c47353f11d0d8a41768c4086dc9e9d28426ba620e286bd5a25','ed8e02559438fa94b112a419e3d2a6c13807ad3a4c4f2dfc6dd0673fd226c05e','be0d5b4ee2f05f7ae5e5ea7ac8bd4774903131674c5999aba01263e96ed47a46','{"tile_m":16,"tile_n":16,"tile_k":16,"intrinsic":"mma_m16n8k16_f16","sg_layout_m":1,"sg_layout_n":1,"sg_data_m":16,"sg_data_n":8,"layout_a":"swizzle(3,3,3)","layout_b":"identity","copy_a":"cp.async","copy_b":"ld.global","vector_a":8,"vector_b":8,"copy_columns_a":2,"copy_columns_b":2,"stages":1,"k_unroll":1,"epilogue":"registers","min_blocks":3,"split_k":4,"raster":"column","batch_mapping":"outer"}','["matmul",{"batch_mapping":"outer","copy_a":"cp.async","copy_b":"ld.global","copy_columns_a":2,"copy_columns_b":2,"epilogue":"registers","intrinsic":"mma_m16n8k16_f16","k_unroll":1,"layout_a":"swizzle(3,3,3)","layout_b":"identity","min_blocks":3,"raster":"column","sg_data_m":16,"sg_data_n":8,"sg_layout_m":1,"sg_layout_n":1,"split_k":4,"stages":1,"tile_k":16,"tile_m":16,"tile_n":16,"vector_a":8,"vector_b":8}]','estimated','ok','',2.76637654841414399892e-06,2.76637654841414399892e-06,2.76637654841414399892e-06,0,9.28699600043731421372e-01,31,0,0,0,0,1024,3.76371467999888409394e-01,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T00:57:16.174986+00:00','evolution',0,NULL);
INSERT INTO "trials" VALUES(4,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","k":64,"m":64,"n":64,"operator":"matmul","order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','matmul','d62612fee607b4c47353f11d0d8a41768c4086dc9e9d28426ba620e286bd5a25','ed8e02559438fa94b112a419e3d2a6c13807ad3a4c4f2dfc6dd0673fd226c05e','f9f0de8aeb802d11566763529ce80e6710467c2f620c0dc18dbc168383f130a8','{"tile_m":96,"tile_n":96,"tile_k":32,"intrinsic":"mma_m16n8k16_f16","sg_layout_m":1,"sg_layout_n":2,"sg_data_m":16,"sg_data_n":48,"layout_a":"swizzle(2,3,5)","layout_b":"pad(16,2)","copy_a":"cp.async","copy_b":"cp.async","vector_a":4,"vector_b":4,"copy_columns_a":4,"copy_columns_b":4,"stages":1,"k_unroll":2,"epilogue":"shared","min_blocks":3,"split_k":2,"raster":"row","batch_mapping":"outer"}','["matmul",{"batch_mapping":"outer","copy_a":"cp.async","copy_b":"cp.async","copy_columns_a":4,"copy_columns_b":4,"epilogue":"shared","intrinsic":"mma_m16n8k16_f16","k_unroll":2,"layout_a":"swizzle(2,3,5)","layout_b":"pad(16,2)","min_blocks":3,"raster":"row","sg_data_m":16,"sg_data_n":48,"sg_layout_m":1,"sg_layout_n":2,"split_k":2,"stages":1,"tile_k":32,"tile_m":96,"tile_n":96,"vector_a":4,"vector_b":4}]','estimated','ok','',4.44946139749889e-06,4.44946139749889e-06,4.44946139749889e-06,0,NULL,253,0,0,0,0,39936,1.10887709399958112044e+00,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T00:57:16.187166+00:00','evolution',0,NULL);
CREATE INDEX trials_by_problem ON trials (problem, device, provenance, status);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('trials',4);
COMMIT;
