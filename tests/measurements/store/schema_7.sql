BEGIN TRANSACTION;
CREATE TABLE entries (
	problem_digest VARCHAR(64) NOT NULL, 
	device TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	problem TEXT NOT NULL, 
	trials INTEGER NOT NULL, 
	ok INTEGER NOT NULL, 
	first_id INTEGER NOT NULL, 
	newest_id INTEGER NOT NULL, 
	ranked_id INTEGER, 
	winner_id INTEGER, 
	median FLOAT, 
	p25 FLOAT, 
	p75 FLOAT, 
	repeats INTEGER, 
	PRIMARY KEY (problem_digest, device, provenance)
);
INSERT INTO "entries" VALUES('0f0d72648e267d6f6b9bcb56c52b0f938b5330fc19a28bd40290d6aafcf9a42c','h200','estimated','softmax','{"columns":256,"dtype":"f16","operator":"softmax","out":"f16","rows":64}',2,2,1,2,2,2,2.62359792592592575965e-06,2.62359792592592575965e-06,2.62359792592592575965e-06,0);
INSERT INTO "entries" VALUES('896a787543ca0cc3ffb64f3a8f13f9ae1a19a46f70d33dcf23d3269101c3bf04','h200','estimated','matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","k":64,"m":64,"n":64,"operator":"matmul","order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}',2,2,3,4,4,3,2.76428183074565569812e-06,2.76428183074565569812e-06,2.76428183074565569812e-06,0);
CREATE TABLE guards (
	problem_digest VARCHAR(64) NOT NULL, 
	device TEXT NOT NULL, 
	max_slowdown FLOAT, 
	floor_seconds FLOAT, 
	noise FLOAT, 
	notes TEXT NOT NULL, 
	PRIMARY KEY (problem_digest, device)
);
INSERT INTO "guards" VALUES('896a787543ca0cc3ffb64f3a8f13f9ae1a19a46f70d33dcf23d3269101c3bf04','h200',0.05,1.0e-06,NULL,'by hand');
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('application','autosched');
INSERT INTO "meta" VALUES('schema_version','7');
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
	cubin_digest TEXT, 
	sass_digest TEXT, 
	sass_bytes INTEGER, 
	budget TEXT, 
	proof TEXT, 
	control TEXT, 
	watts FLOAT, 
	problem_digest VARCHAR(64) NOT NULL, 
	schedule_digest VARCHAR(64) NOT NULL, 
	CONSTRAINT time_exactly_when_ok CHECK ((status = 'ok') = (median IS NOT NULL)), 
	CONSTRAINT time_is_positive CHECK (median > 0 AND p25 > 0 AND p75 > 0), 
	CONSTRAINT time_is_whole CHECK ((p25 IS NULL) = (median IS NULL) AND (p75 IS NULL) = (median IS NULL) AND (repeats IS NULL) = (median IS NULL))
);
INSERT INTO "trials" VALUES(1,'softmax','{"columns":256,"dtype":"f16","operator":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','row_reduction','47669c6628c4c6d2a563f55869723a86a55f8f4adb9a9dda8462f117db406344','5f4bdbd329e030b96333301b1486b3caad57f4df0af9b12419d4ebcda3a8889d','e16aebda67fa4f0103bfcfb6fffad29dfd916861a8edc232b2c1cd5b35e0f14b','{"lanes":8,"subgroups":2,"parallel_subgroups":1,"batch":1,"vector":1,"peel":"no","unroll":8,"split":1,"finish":"last_block","row_staging":"reload","passes":"one","x_cache":"evict_first","out_cache":"streaming","min_blocks":8}','["row_reduction",{"batch":1,"finish":"last_block","lanes":8,"min_blocks":8,"out_cache":"streaming","parallel_subgroups":1,"passes":"one","peel":"no","row_staging":"reload","split":1,"subgroups":2,"unroll":8,"vector":1,"x_cache":"evict_first"}]','estimated','ok','',3.5042948148148148717e-06,3.5042948148148148717e-06,3.5042948148148148717e-06,0,9.3379203222817230845e-01,48,0,0,0,0,128,3.23790970000118250027e-01,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T01:14:55.393108+00:00','evolution',0,NULL,'152a2fbd059b1e9d15519e3a0815dd386c270698d75c38238cf137d96d5ef363','254bc1f5a91044fa7e213be2479c4bc05721c14d60f135b3403fb8930c90cb51',7424,'{"seconds":null,"trials":2}',NULL,NULL,NULL,'0f0d72648e267d6f6b9bcb56c52b0f938b5330fc19a28bd40290d6aafcf9a42c','ad2afdc72f354bfdde452c30843988c87854576f717b3c79fd466c9fc638af76');
INSERT INTO "trials" VALUES(2,'softmax','{"columns":256,"dtype":"f16","operator":"softmax","out":"f16","rows":64}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','row_reduction','47669c6628c4c6d2a563f55869723a86a55f8f4adb9a9dda8462f117db406344','5f4bdbd329e030b96333301b1486b3caad57f4df0af9b12419d4ebcda3a8889d','58db28f48dfac90d4a8946f64a594fca472424e23cf87f78f30f6ca82efc4f21','{"lanes":32,"subgroups":1,"parallel_subgroups":1,"batch":1,"vector":8,"peel":"no","unroll":1,"split":1,"finish":"last_block","row_staging":"registers","passes":"one","x_cache":"none","out_cache":"none","min_blocks":8}','["row_reduction",{"batch":1,"finish":"last_block","lanes":32,"min_blocks":8,"out_cache":"none","parallel_subgroups":1,"passes":"one","peel":"no","row_staging":"registers","split":1,"subgroups":1,"unroll":1,"vector":8,"x_cache":"none"}]','estimated','ok','',2.62359792592592575965e-06,2.62359792592592575965e-06,2.62359792592592575965e-06,0,9.3379203222817230845e-01,28,0,0,0,0,0,3.72714447999896947294e-01,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T01:14:55.589082+00:00','evolution',0,NULL,'609cb3c17a9e3f8dbb40ca22453369ece7891e4347a206b483ed96a8d86c2fd0','8bd303ba06dd2807f780a95f7b6d7401fb985682fad5235251d142394a420371',4224,'{"seconds":null,"trials":2}',NULL,NULL,NULL,'0f0d72648e267d6f6b9bcb56c52b0f938b5330fc19a28bd40290d6aafcf9a42c','0b2741eb6b2602093c78495737c07c7f36b007b3e06d4d10a37d5a755df51238');
INSERT INTO "trials" VALUES(3,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","k":64,"m":64,"n":64,"operator":"matmul","order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','matmul','d62612fee607b4c47353f11d0d8a41768c4086dc9e9d28426ba620e286bd5a25','ed8e02559438fa94b112a419e3d2a6c13807ad3a4c4f2dfc6dd0673fd226c05e','a246b8d8d9eb9bb33a3ecdb1bbe38acd84e812da617a4840589dd54964322dc7','{"tile_m":16,"tile_n":16,"tile_k":16,"intrinsic":"mma_m16n8k16_f16","sg_layout_m":1,"sg_layout_n":1,"sg_data_m":16,"sg_data_n":16,"layout_a":"swizzle(1,3,3)","layout_b":"swizzle(3,3,3)","copy_a":"cp.async","copy_b":"cp.async","vector_a":8,"vector_b":4,"copy_columns_a":2,"copy_columns_b":4,"stages":1,"k_unroll":1,"epilogue":"registers","min_blocks":3,"split_k":4,"raster":"row","batch_mapping":"outer"}','["matmul",{"batch_mapping":"outer","copy_a":"cp.async","copy_b":"cp.async","copy_columns_a":2,"copy_columns_b":4,"epilogue":"registers","intrinsic":"mma_m16n8k16_f16","k_unroll":1,"layout_a":"swizzle(1,3,3)","layout_b":"swizzle(3,3,3)","min_blocks":3,"raster":"row","sg_data_m":16,"sg_data_n":16,"sg_layout_m":1,"sg_layout_n":1,"split_k":4,"stages":1,"tile_k":16,"tile_m":16,"tile_n":16,"vector_a":8,"vector_b":4}]','estimated','ok','',2.76428183074565569812e-06,2.76428183074565569812e-06,2.76428183074565569812e-06,0,9.28699600043731421372e-01,31,0,0,0,0,1024,1.17868350900062068831e+00,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T01:15:29.343482+00:00','evolution',0,NULL,'692dff538bcd42f83eb8bbb4751afd4bb17f3456146aedfe78a7d28b1a573c2a','45866513872163863149fec04740443e935c43b895db3a5e3cca5c38187a05d5',4224,'{"seconds":null,"trials":2}',NULL,NULL,NULL,'896a787543ca0cc3ffb64f3a8f13f9ae1a19a46f70d33dcf23d3269101c3bf04','85dabf4cbdf5dfaaa39031a7294cd7cc28d50c8722521cc43fefe9ab72dbc90c');
INSERT INTO "trials" VALUES(4,'matmul','{"a":"f16","acc":"f32","b":"f16","batch":1,"epilogue":"none","k":64,"m":64,"n":64,"operator":"matmul","order_a":"row","order_b":"row","out":"f16","precision":"tf32","reduction":"none"}','h200','{"device":"h200","model":"the analytic model of autosched 0.1.0","sm":"sm_90a","sm_count":"132","toolchain":"nvrtc 13.5.37"}','matmul','d62612fee607b4c47353f11d0d8a41768c4086dc9e9d28426ba620e286bd5a25','ed8e02559438fa94b112a419e3d2a6c13807ad3a4c4f2dfc6dd0673fd226c05e','d82116c6aed03beddaad5d663656cf1623ef1a668ea2a2af5b9597ef73668ee6','{"tile_m":96,"tile_n":96,"tile_k":16,"intrinsic":"mma_m16n8k16_f16","sg_layout_m":2,"sg_layout_n":1,"sg_data_m":48,"sg_data_n":96,"layout_a":"transpose+swizzle(2,3,5)","layout_b":"pad(8,4)","copy_a":"ld.global","copy_b":"ld.global","vector_a":8,"vector_b":4,"copy_columns_a":2,"copy_columns_b":8,"stages":2,"k_unroll":1,"epilogue":"registers","min_blocks":2,"split_k":2,"raster":"row","batch_mapping":"outer"}','["matmul",{"batch_mapping":"outer","copy_a":"ld.global","copy_b":"ld.global","copy_columns_a":2,"copy_columns_b":8,"epilogue":"registers","intrinsic":"mma_m16n8k16_f16","k_unroll":1,"layout_a":"transpose+swizzle(2,3,5)","layout_b":"pad(8,4)","min_blocks":2,"raster":"row","sg_data_m":48,"sg_data_n":96,"sg_layout_m":2,"sg_layout_n":1,"split_k":2,"stages":2,"tile_k":16,"tile_m":96,"tile_n":96,"vector_a":8,"vector_b":4}]','estimated','ok','',4.56463795992714e-06,4.56463795992714e-06,4.56463795992714e-06,0,NULL,254,0,0,0,0,12544,4.09512007599914795719e+00,NULL,'nvrtc 13.5.37','','0.1.0','2026-11-22T01:15:30.880175+00:00','evolution',0,NULL,'f48616b6a44b53dd5416563ac750c5f5e7eb4bc250f189bedcc4fa2f67572bf1','d7dcbf2c2625b5269ccec736c46a5f65eaa0483d466875ab7bd1258a5cf628d8',27136,'{"seconds":null,"trials":2}',NULL,NULL,NULL,'896a787543ca0cc3ffb64f3a8f13f9ae1a19a46f70d33dcf23d3269101c3bf04','205cfbe2a64c830a146faac83d939b847fa791629c72f9f3414a2b7d656861c8');
CREATE INDEX trials_wrong ON trials (problem_digest) WHERE status = 'wrong_result';
CREATE INDEX trials_in_order ON trials (problem_digest, device, provenance, id);
CREATE INDEX trials_by_schedule ON trials (problem_digest, device, provenance, schedule_digest);
CREATE INDEX entries_by_device ON entries (device);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('trials',4);
COMMIT;
