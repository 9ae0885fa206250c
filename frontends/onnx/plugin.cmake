# The onnx frontend: onnx.proto is compiled by protoc-c; libprotobuf-c unpacks what the wire walker
# leaves of a model.
if(ST_HAVE_PROTOBUFC AND ST_PROTOC_C)
  set(ST_PLUGIN_PROTOS "${CMAKE_CURRENT_LIST_DIR}/onnx.proto")
  set(ST_PLUGIN_LIBS st_dep_PROTOBUFC m)
else()
  set(ST_PLUGIN_SKIP "needs libprotobuf-c-dev and protobuf-c-compiler")
endif()
