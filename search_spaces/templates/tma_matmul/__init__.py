"""The kernel template of matmuls by mma.sync from stages that TMA fills: ``template.py`` names its parts."""
